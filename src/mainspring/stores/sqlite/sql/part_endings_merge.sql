ON CONFLICT (job_id, ending) DO UPDATE SET count = count + excluded.count
