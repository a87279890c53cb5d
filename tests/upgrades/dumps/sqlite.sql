BEGIN TRANSACTION;
CREATE TABLE mainspring_audit (
    id         TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    before     TEXT,
    after      TEXT,
    request_id TEXT
);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-5fc4-751a-a01c-71ead9e6645f',1794963234756319,'system','trigger','job:ok',NULL,'01a1ec25-5fc4-751a-84d3-c358361cda4b',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-5fd2-774f-9df2-dba1b953e712',1794963234770457,'system','trigger','job:some',NULL,'01a1ec25-5fd2-774f-bfbb-f8639556d02a',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-5ff7-76d4-a2ad-9eb1b21925f2',1794963234807427,'ann','cancel','execution:01a1ec25-5ff5-705e-bf09-9a2a8b5b5508','pending','{"reason":"not needed"}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-5ff9-736c-a423-eb0dd1d3838e',1794963234809214,'ann','pause','job:paused','{"next_run":"2026-11-19T00:53:54.707163Z"}','{"paused":"2026-11-18T00:53:54.809214Z","pause_note":"audit"}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-60da-77c6-92d1-91d9e200a54c',1794963235034486,'bob','update','job:plain','{}','{"overrides":{"queue":"slow"}}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-610d-75e7-ad22-bfde9c8cb84e',1794963235085369,'ann','set_calendar','calendar:holidays',NULL,'{"entries":1,"first":["2026-12-25"],"origin":"operator"}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6111-7185-8036-53c1c28ab8b2',1794963235089095,'ann','create','token:79f141ef42fc49aa',NULL,'{"name":"ci","role":"viewer"}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6123-714b-b1b8-9fbfe191e0f8',1794963235107081,'ann','create_webhook','webhook:wh-67df41c60842',NULL,'{"url":"https://example.com/...","events":["execution.cancelled"],"format":"standard","enabled":true,"secrets":1}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-613a-7d06-91a9-4bbab6505377',1794963235130814,'ann','create','template:nightly',NULL,'{"handler":"plain","queue":"slow"}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-613c-79ef-8c16-8371b95368c0',1794963235132621,'ann','set','hook:stripe',NULL,'{"job":"hooked","style":"standard","enabled":true,"secrets":1}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-613d-76fd-b44f-b596debfb4f9',1794963235133437,'ann','backfill','job:ok',NULL,'01a1ec25-613d-76fd-9ed2-ef7e02d99587',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-67ae-7a56-a517-5962ae057905',1794963236782646,'loopback','trigger','job:plain',NULL,'01a1ec25-67a9-82e1-aa2f-2406975714fa','f90cec65d36841cf99d76f6160d0a9b5');
INSERT INTO "mainspring_audit" VALUES('01a1ec25-67bc-7995-942d-1bae25188f35',1794963236796599,'hook:stripe','trigger','job:hooked',NULL,'01a1ec25-67ba-8c15-ae72-578b84488492','ac15a344e0464dd58296f63386c9c1cb');
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6f89-76d9-a505-d8969da32fc6',1794963238793428,'root','import','import:01a1ec25-6f89-76d9-a844-5d57e4333569',NULL,'{"source":"cron-rows /app/tests/upgrades/dumps/sqlite.manifest.rows.json","create":0,"update":1,"review":0}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6f91-75b2-9c2b-f9f65c2ea651',1794963238801356,'root','update','job:imported','{}','{"next_run":"2026-11-18T04:30:00Z","overrides":{"trigger":{"kind":"every","seconds":86400,"start":"1970-01-01T04:30:00Z"}}}',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6ff6-7fef-8f81-d9e82bc7b0a9',1794963238902996,'system','trigger','job:each',NULL,'01a1ec25-6ff6-7fef-8b82-583ddd440e45',NULL);
INSERT INTO "mainspring_audit" VALUES('01a1ec25-6ffc-7a51-acf4-156a23d5a280',1794963238908645,'ann','backfill','job:filled',NULL,'01a1ec25-6ffc-7a51-acaf-775518d90ad5',NULL);
CREATE TABLE mainspring_buckets (
    key   TEXT PRIMARY KEY,
    level REAL NOT NULL,
    since INTEGER NOT NULL,
    rate  REAL NOT NULL,
    burst INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_buckets" VALUES('pace',9.0,1794963238929353,100.0,10);
CREATE TABLE mainspring_endings (
    job_id TEXT NOT NULL,
    ending TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, ending)
) WITHOUT ROWID;
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-8507-0f506c465205','enqueue:skipped',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-8c9a-5539fe7e0c00','dependency:completed',3);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-8d94-f3c1e4b3de0e','enqueue:failed',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-a3a7-ed8a28ae2928','manual:completed',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-a3a7-ed8a28ae2928','manual:failed',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-a3a7-ed8a28ae2928','manual:partial',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-abd2-ac583b2455bb','api:completed',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','api:completed',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','enqueue:cancelled',1);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','enqueue:completed',5);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','backfill:completed',2);
INSERT INTO "mainspring_endings" VALUES('01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','manual:completed',1);
CREATE TABLE mainspring_entries (
    kind    TEXT NOT NULL,
    scope   TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (kind, scope, key)
) WITHOUT ROWID;
INSERT INTO "mainspring_entries" VALUES('backfill','closed','01a1ec25-613d-76fd-9ed2-ef7e02d99587',1,'{"id":"01a1ec25-613d-76fd-9ed2-ef7e02d99587","job":"ok","job_id":"01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42","begin":1794945600000000,"end":1794952800000000,"created":1794963235133437,"created_by":"ann","total":2,"state":"completed","position":2,"completed":2,"started":1794963235137305,"finished":1794963236805170,"moved":1794963236805170}');
INSERT INTO "mainspring_entries" VALUES('backfill','open','01a1ec25-6ffc-7a51-acaf-775518d90ad5',3,'{"id":"01a1ec25-6ffc-7a51-acaf-775518d90ad5","job":"filled","job_id":"01a1ec25-5f93-729b-92e1-b5bed45fada5","begin":1794945600000000,"end":1794952800000000,"created":1794963238908645,"created_by":"ann","total":2,"state":"running","position":1,"in_flight":[0],"started":1794963238915996,"moved":1794963238915996}');
INSERT INTO "mainspring_entries" VALUES('backfill_plan','01a1ec25-6ffc-7a51-acaf-775518d90ad5','000000',1,'[[1794945600000000,1794949200000000],[1794949200000000,1794952800000000]]');
INSERT INTO "mainspring_entries" VALUES('calendar','','holidays',1,'{"edited":[{"begin":"2026-12-25T00:00:00","end":"2026-12-26T00:00:00"}],"by":"ann","at":1794963235085369}');
INSERT INTO "mainspring_entries" VALUES('delivery','','af76f5a7cb7d05e26f11bb7603eb1c027cfa0ed1799a180a1cc98ae6a75d9a0f',2,'{"request":"hook","at":1794963236794506,"since":1794963236794506,"answer":{"status":202,"body":"{\"execution_id\":\"01a1ec25-67ba-8c15-ae72-578b84488492\",\"status\":\"pending\"}"}}');
INSERT INTO "mainspring_entries" VALUES('hook','','stripe',1,'{"job":"hooked","style":"standard","secrets":[{"text":"whsec_lEDM0CaERMpKUU5XqLAJIYOPB6UfGEwZLs0NW1gULcU=","created":1794963235132621}],"passed":["payload"],"created":1794963235132621,"updated":1794963235132621,"by":"ann"}');
INSERT INTO "mainspring_entries" VALUES('idempotency','','598dc67b0b87822625a0ab6c4c5e10ca6935e3ce76684dfdc0154fa381172168',2,'{"request":"727cb93dac933ee428975d47a99d1f857dab4af72c92cf1dbdd4cdca23f976b8","at":1794963236777707,"since":1794963236777707,"answer":{"status":202,"body":"{\"id\":\"plain\",\"status\":\"running\",\"current_retry_count\":0,\"execution_id\":\"01a1ec25-67a9-82e1-aa2f-2406975714fa\",\"execution\":{\"id\":\"01a1ec25-67a9-82e1-aa2f-2406975714fa\",\"job\":\"plain\",\"job_id\":\"plain\",\"handler\":\"plain\",\"queue\":\"slow\",\"status\":\"pending\",\"reason\":null,\"trigger\":\"api\",\"triggered_by\":\"loopback\",\"trace_id\":\"01a1ec2567a982e1aa2f2406975714fa\",\"execution_number\":null,\"params\":{},\"window\":null,\"tenant\":null,\"share\":null,\"waits_for\":null,\"parent_id\":null,\"retry_of\":null,\"flow_id\":\"01a1ec25-67a9-82e1-aa2f-2406975714fa\",\"priority\":0,\"attempt\":1,\"retry_attempt\":0,\"max_attempts\":10,\"worker\":null,\"created_at\":\"2026-11-18T00:53:56.782646Z\",\"start_at\":\"2026-11-18T00:53:56.782646Z\",\"scheduled_at\":null,\"started_at\":null,\"finished_at\":null,\"completed_at\":null,\"cancel_requested_at\":null,\"timeout_at\":null,\"run_timeout_at\":null,\"duration_ms\":null,\"error_message\":null,\"stack_trace\":null,\"cpu_time_ms\":null,\"memory_peak_mb\":null,\"progress\":null,\"logs_dropped\":0,\"counters\":{},\"result\":null,\"metadata\":{},\"attempts\":[]}}","headers":{"X-Execution-Id":"01a1ec25-67a9-82e1-aa2f-2406975714fa"}}}');
INSERT INTO "mainspring_entries" VALUES('import','','01a1ec25-6f89-76d9-a844-5d57e4333569',1,'{"at":1794963238793428,"by":"root","source":"cron-rows /app/tests/upgrades/dumps/sqlite.manifest.rows.json"}');
INSERT INTO "mainspring_entries" VALUES('import','01a1ec25-6f89-76d9-a844-5d57e4333569','imported',2,'{"created":false,"after":"15290d1c595dadddab63c44b36b93442"}');
INSERT INTO "mainspring_entries" VALUES('join','','ok/after_ok',1,'{}');
INSERT INTO "mainspring_entries" VALUES('logins','','180',1,'{"9af2289436f303e0166030a21e525d26":[1794963236803200]}');
INSERT INTO "mainspring_entries" VALUES('revision','moved','01794963238893100',1,'{"trigger":{"kind":"every","seconds":7200},"tz":"UTC","window":"previous_hour","anchor":1794963234707163,"since":1794963234707163}');
INSERT INTO "mainspring_entries" VALUES('template','','nightly',1,'{"handler":"plain","fields":{"queue":"slow"},"created":1794963235130814,"updated":1794963235130814,"by":"ann"}');
INSERT INTO "mainspring_entries" VALUES('tenants','01a1ec25-5fd2-774f-bfbb-f8639556d02a','0000008131040974-01a1ec25-5fad-7f6c-8338-080573e94f2f-0000',1,'["a","b"]');
INSERT INTO "mainspring_entries" VALUES('tenants','01a1ec25-5fd2-774f-bfbb-f8639556d02a','list',1,'{"by":"0000008131040974-01a1ec25-5fad-7f6c-8338-080573e94f2f","total":2}');
INSERT INTO "mainspring_entries" VALUES('tenants','01a1ec25-6ff6-7fef-8b82-583ddd440e45','0000005561833117-01a1ec25-6ff2-7fef-8083-febc35891395-0000',1,'["a","b","c"]');
INSERT INTO "mainspring_entries" VALUES('tenants','01a1ec25-6ff6-7fef-8b82-583ddd440e45','list',1,'{"by":"0000005561833117-01a1ec25-6ff2-7fef-8083-febc35891395","total":3}');
INSERT INTO "mainspring_entries" VALUES('tenants','closed','01a1ec25-5fd2-774f-bfbb-f8639556d02a',1,'{"job_id":"01a1ec25-5f93-729b-a3a7-ed8a28ae2928","at":1794963234806719}');
INSERT INTO "mainspring_entries" VALUES('tenants','open','01a1ec25-6ff6-7fef-8b82-583ddd440e45',1,'{"job_id":"01a1ec25-5f93-729b-a777-e33743beb0a2","at":1794963238908394}');
INSERT INTO "mainspring_entries" VALUES('token','','79f141ef42fc49aa',1,'{"id":"79f141ef42fc49aa","name":"ci","role":"viewer","digest":"f4c928b657ea27aa092beea87ece8509499689ff2d2ae76f265eea411c2736cd","created":1794963235089095,"created_by":"ann","expires":null,"last_used":null,"revoked":null,"revoked_by":null,"version":0}');
INSERT INTO "mainspring_entries" VALUES('unique','','200651a8b2d5912f692db89468a7d47d86a3ed6844f48f1b15f2be1d9c9a7e5e',2,'{"id":"01a1ec25-6144-7f95-97b7-08db4323e56c","until":2110323235142150,"since":1794963235142150,"sure":true}');
INSERT INTO "mainspring_entries" VALUES('webhook','','wh-67df41c60842',1,'{"id":"wh-67df41c60842","url":"https://example.com/hook","events":["execution.cancelled"],"secrets":[{"text":"whsec_wsIzPisAk9NLuGUe1Q21/+6h0nbVrt2utzCmOxgEk5w=","created":1794963235107081}],"created":1794963235107081,"created_by":"ann"}');
INSERT INTO "mainspring_entries" VALUES('window','after_ok','01794945600000000-01794949200000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-613d-8f27-b70a-3a99fd3170bc","finished":1794963236776518,"ids":["01a1ec25-613d-8f27-b70a-3a99fd3170bc"]}');
INSERT INTO "mainspring_entries" VALUES('window','after_ok','01794949200000000-01794952800000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-613d-82d4-a3c2-48ff367fccf4","finished":1794963236802369,"ids":["01a1ec25-613d-82d4-a3c2-48ff367fccf4"]}');
INSERT INTO "mainspring_entries" VALUES('window','after_ok','01794956400000000-01794960000000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-5fc4-8197-8bb0-383bb8e269a9","finished":1794963234790088,"ids":["01a1ec25-5fc4-8197-8bb0-383bb8e269a9"]}');
INSERT INTO "mainspring_entries" VALUES('window','ok','01794945600000000-01794949200000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-613d-8f5e-82a8-236077bffcf8","finished":1794963235139636,"ids":["01a1ec25-613d-8f5e-82a8-236077bffcf8"]}');
INSERT INTO "mainspring_entries" VALUES('window','ok','01794949200000000-01794952800000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-613d-881d-bd85-ad1c851dfa74","finished":1794963236785697,"ids":["01a1ec25-613d-881d-bd85-ad1c851dfa74"]}');
INSERT INTO "mainspring_entries" VALUES('window','ok','01794956400000000-01794960000000000',1,'{"state":"done","last_state":"completed","execution_id":"01a1ec25-5fc4-751a-84d3-c358361cda4b","finished":1794963234762550,"ids":["01a1ec25-5fc4-751a-84d3-c358361cda4b"]}');
CREATE TABLE mainspring_executions (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job_id        TEXT NOT NULL,
    created       INTEGER NOT NULL,
    tenant        TEXT,
    parent_id     TEXT,
    foreign_trace TEXT,                              -- the trace id, unless it is the row's own id
    rare_trigger  TEXT,                              -- NULL: enqueue, as for most executions
    stray         INTEGER NOT NULL DEFAULT 0,        -- 1: the time in its id is not its creation time
    body          TEXT NOT NULL
);
INSERT INTO "mainspring_executions" VALUES(1,'01a1ec25-5fc4-751a-84d3-c358361cda4b','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42',1794963234756319,NULL,NULL,NULL,'manual',0,'{"number":1,"id":"01a1ec25-5fc4-751a-84d3-c358361cda4b","job":"ok","job_id":"01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42","handler":"ok","trigger":"manual","trace_id":"01a1ec255fc4751a84d3c358361cda4b","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794956400000000,"window_end":1794960000000000,"created":1794963234756319,"due":1794963234756319,"overlap_key":"01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42"}');
INSERT INTO "mainspring_executions" VALUES(2,'01a1ec25-5fc9-7ca7-b9f0-135cc6492e39','01a1ec25-5f93-729b-8d94-f3c1e4b3de0e',1794963234761791,NULL,NULL,NULL,NULL,0,'{"number":1,"id":"01a1ec25-5fc9-7ca7-b9f0-135cc6492e39","job":"fails","job_id":"01a1ec25-5f93-729b-8d94-f3c1e4b3de0e","handler":"fails","trace_id":"01a1ec255fc97ca7b9f0135cc6492e39","params":"{\"order_id\":4711}","policy":"{\"max_attempts\":2,\"retry\":{\"initial\":0.01,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963234761791,"due":1794963234761791}');
INSERT INTO "mainspring_executions" VALUES(3,'01a1ec25-5fcd-702d-b123-43789d163e63','01a1ec25-5f93-729b-8507-0f506c465205',1794963234765011,NULL,NULL,NULL,NULL,0,'{"number":1,"id":"01a1ec25-5fcd-702d-b123-43789d163e63","job":"skips","job_id":"01a1ec25-5f93-729b-8507-0f506c465205","handler":"skips","trace_id":"01a1ec255fcd702db12343789d163e63","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963234765011,"due":1794963234765011}');
INSERT INTO "mainspring_executions" VALUES(4,'01a1ec25-5fd2-774f-bfbb-f8639556d02a','01a1ec25-5f93-729b-a3a7-ed8a28ae2928',1794963234770457,NULL,NULL,NULL,'manual',0,'{"number":1,"id":"01a1ec25-5fd2-774f-bfbb-f8639556d02a","job":"some","job_id":"01a1ec25-5f93-729b-a3a7-ed8a28ae2928","handler":"some","trigger":"manual","trace_id":"01a1ec255fd2774fbfbbf8639556d02a","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}}","created":1794963234770457,"due":1794963234770457}');
INSERT INTO "mainspring_executions" VALUES(5,'01a1ec25-5fc4-8197-8bb0-383bb8e269a9','01a1ec25-5f93-729b-8c9a-5539fe7e0c00',1794963234768597,NULL,NULL,'01a1ec255fc4751a84d3c358361cda4b','dependency',0,'{"number":1,"id":"01a1ec25-5fc4-8197-8bb0-383bb8e269a9","job":"after_ok","job_id":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","handler":"after_ok","trigger":"dependency","trace_id":"01a1ec255fc4751a84d3c358361cda4b","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794956400000000,"window_end":1794960000000000,"created":1794963234768597,"due":1794963234768597,"running_overlap_key":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","flow":"01a1ec25-5fc4-751a-84d3-c358361cda4b"}');
INSERT INTO "mainspring_executions" VALUES(6,'01a1ec25-5fdb-7e6a-84fe-99d6d69fa54d','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963234779901,'acme',NULL,NULL,NULL,0,'{"number":1,"id":"01a1ec25-5fdb-7e6a-84fe-99d6d69fa54d","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","trace_id":"01a1ec255fdb7e6a84fe99d6d69fa54d","params":"{\"item\":1}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","tenant":"acme","priority":3,"created":1794963234779901,"due":1794963234779901,"share":"acme"}');
INSERT INTO "mainspring_executions" VALUES(7,'01a1ec25-5fd1-8000-800b-b9b9fdea24d5','01a1ec25-5f93-729b-a3a7-ed8a28ae2928',1794963234796025,'a','01a1ec25-5fd2-774f-bfbb-f8639556d02a','01a1ec255fd2774fbfbbf8639556d02a','manual',0,'{"number":2,"id":"01a1ec25-5fd1-8000-800b-b9b9fdea24d5","job":"some","job_id":"01a1ec25-5f93-729b-a3a7-ed8a28ae2928","handler":"some","trigger":"manual","trace_id":"01a1ec255fd2774fbfbbf8639556d02a","params":"{}","policy":"{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"a","parent_id":"01a1ec25-5fd2-774f-bfbb-f8639556d02a","created":1794963234796025,"due":1794963234796025,"share":"a"}');
INSERT INTO "mainspring_executions" VALUES(8,'01a1ec25-5fd1-8000-8010-4eb6ee60ab6a','01a1ec25-5f93-729b-a3a7-ed8a28ae2928',1794963234796025,'b','01a1ec25-5fd2-774f-bfbb-f8639556d02a','01a1ec255fd2774fbfbbf8639556d02a','manual',0,'{"number":3,"id":"01a1ec25-5fd1-8000-8010-4eb6ee60ab6a","job":"some","job_id":"01a1ec25-5f93-729b-a3a7-ed8a28ae2928","handler":"some","trigger":"manual","trace_id":"01a1ec255fd2774fbfbbf8639556d02a","params":"{}","policy":"{\"max_attempts\":1,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"b","parent_id":"01a1ec25-5fd2-774f-bfbb-f8639556d02a","created":1794963234796025,"due":1794963234796025,"share":"b"}');
INSERT INTO "mainspring_executions" VALUES(9,'01a1ec25-5ff5-705e-bf09-9a2a8b5b5508','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963234805023,NULL,NULL,NULL,NULL,0,'{"number":2,"id":"01a1ec25-5ff5-705e-bf09-9a2a8b5b5508","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","trace_id":"01a1ec255ff5705ebf099a2a8b5b5508","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963234805023,"due":1794966834805937}');
INSERT INTO "mainspring_executions" VALUES(10,'01a1ec25-613d-8f5e-82a8-236077bffcf8','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42',1794963235137305,NULL,'01a1ec25-613d-76fd-9ed2-ef7e02d99587',NULL,'backfill',0,'{"number":2,"id":"01a1ec25-613d-8f5e-82a8-236077bffcf8","job":"ok","job_id":"01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42","handler":"ok","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec25613d8f5e82a8236077bffcf8","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794945600000000,"window_end":1794949200000000,"parent_id":"01a1ec25-613d-76fd-9ed2-ef7e02d99587","created":1794963235137305,"due":1794963235137305,"unique_key":"job:ok:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z"}');
INSERT INTO "mainspring_executions" VALUES(11,'01a1ec25-6144-7f95-97b7-08db4323e56c','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963235140974,NULL,NULL,NULL,NULL,0,'{"number":3,"id":"01a1ec25-6144-7f95-97b7-08db4323e56c","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec2561447f9597b708db4323e56c","params":"{\"item\":2}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963235140974,"due":1794963235140974,"unique_key":"once"}');
INSERT INTO "mainspring_executions" VALUES(12,'01a1ec25-613d-8f27-b70a-3a99fd3170bc','01a1ec25-5f93-729b-8c9a-5539fe7e0c00',1794963235143277,NULL,NULL,'01a1ec25613d8f5e82a8236077bffcf8','dependency',0,'{"number":2,"id":"01a1ec25-613d-8f27-b70a-3a99fd3170bc","job":"after_ok","job_id":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","handler":"after_ok","trigger":"dependency","triggered_by":"ann","trace_id":"01a1ec25613d8f5e82a8236077bffcf8","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794945600000000,"window_end":1794949200000000,"created":1794963235143277,"due":1794963235143277,"running_overlap_key":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","flow":"01a1ec25-613d-8f5e-82a8-236077bffcf8"}');
INSERT INTO "mainspring_executions" VALUES(13,'01a1ec25-613d-881d-bd85-ad1c851dfa74','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42',1794963236777748,NULL,'01a1ec25-613d-76fd-9ed2-ef7e02d99587',NULL,'backfill',0,'{"number":3,"id":"01a1ec25-613d-881d-bd85-ad1c851dfa74","job":"ok","job_id":"01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42","handler":"ok","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec25613d881dbd85ad1c851dfa74","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\",\"feeds\":true}","window_begin":1794949200000000,"window_end":1794952800000000,"parent_id":"01a1ec25-613d-76fd-9ed2-ef7e02d99587","created":1794963236777748,"due":1794963236777748,"unique_key":"job:ok:2026-11-17T21:00:00Z/2026-11-17T22:00:00Z"}');
INSERT INTO "mainspring_executions" VALUES(14,'01a1ec25-67a9-82e1-aa2f-2406975714fa','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963236782646,NULL,NULL,NULL,'api',0,'{"number":4,"id":"01a1ec25-67a9-82e1-aa2f-2406975714fa","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trigger":"api","triggered_by":"loopback","trace_id":"01a1ec2567a982e1aa2f2406975714fa","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963236782646,"due":1794963236782646}');
INSERT INTO "mainspring_executions" VALUES(15,'01a1ec25-67ba-8c15-ae72-578b84488492','01a1ec25-5f93-729b-abd2-ac583b2455bb',1794963236796599,NULL,NULL,NULL,'api',0,'{"number":1,"id":"01a1ec25-67ba-8c15-ae72-578b84488492","job":"hooked","job_id":"01a1ec25-5f93-729b-abd2-ac583b2455bb","handler":"hooked","trigger":"api","triggered_by":"hook:stripe","trace_id":"01a1ec2567ba8c15ae72578b84488492","params":"{\"payload\":{\"amount\":12}}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963236796599,"due":1794963236796599}');
INSERT INTO "mainspring_executions" VALUES(16,'01a1ec25-613d-82d4-a3c2-48ff367fccf4','01a1ec25-5f93-729b-8c9a-5539fe7e0c00',1794963236795944,NULL,NULL,'01a1ec25613d881dbd85ad1c851dfa74','dependency',0,'{"number":3,"id":"01a1ec25-613d-82d4-a3c2-48ff367fccf4","job":"after_ok","job_id":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","handler":"after_ok","trigger":"dependency","triggered_by":"ann","trace_id":"01a1ec25613d881dbd85ad1c851dfa74","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794949200000000,"window_end":1794952800000000,"created":1794963236795944,"due":1794963236795944,"running_overlap_key":"01a1ec25-5f93-729b-8c9a-5539fe7e0c00","flow":"01a1ec25-613d-881d-bd85-ad1c851dfa74"}');
INSERT INTO "mainspring_executions" VALUES(17,'01a1ec25-6ff6-7fef-8b82-583ddd440e45','01a1ec25-5f93-729b-a777-e33743beb0a2',1794963238902996,NULL,NULL,NULL,'manual',0,'{"number":1,"id":"01a1ec25-6ff6-7fef-8b82-583ddd440e45","job":"each","job_id":"01a1ec25-5f93-729b-a777-e33743beb0a2","handler":"each","trigger":"manual","trace_id":"01a1ec256ff67fef8b82583ddd440e45","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"fan_out\":{\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]},\"concurrency\":2}}","created":1794963238902996,"due":1794963238902996}');
INSERT INTO "mainspring_executions" VALUES(18,'01a1ec25-6ff5-8000-8009-9f0030d14414','01a1ec25-5f93-729b-a777-e33743beb0a2',1794963238910800,'a','01a1ec25-6ff6-7fef-8b82-583ddd440e45','01a1ec256ff67fef8b82583ddd440e45','manual',0,'{"number":2,"id":"01a1ec25-6ff5-8000-8009-9f0030d14414","job":"each","job_id":"01a1ec25-5f93-729b-a777-e33743beb0a2","handler":"each","trigger":"manual","trace_id":"01a1ec256ff67fef8b82583ddd440e45","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"a","parent_id":"01a1ec25-6ff6-7fef-8b82-583ddd440e45","created":1794963238910800,"due":1794963238910800,"share":"a","limits":"[{\"key\":\"fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45\",\"concurrency\":2}]"}');
INSERT INTO "mainspring_executions" VALUES(19,'01a1ec25-6ff5-8000-8013-deb0ba83b93d','01a1ec25-5f93-729b-a777-e33743beb0a2',1794963238910800,'b','01a1ec25-6ff6-7fef-8b82-583ddd440e45','01a1ec256ff67fef8b82583ddd440e45','manual',0,'{"number":3,"id":"01a1ec25-6ff5-8000-8013-deb0ba83b93d","job":"each","job_id":"01a1ec25-5f93-729b-a777-e33743beb0a2","handler":"each","trigger":"manual","trace_id":"01a1ec256ff67fef8b82583ddd440e45","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"b","parent_id":"01a1ec25-6ff6-7fef-8b82-583ddd440e45","created":1794963238910800,"due":1794963238910800,"share":"b","limits":"[{\"key\":\"fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45\",\"concurrency\":2}]"}');
INSERT INTO "mainspring_executions" VALUES(20,'01a1ec25-6ff5-8000-8027-5aa4340c401b','01a1ec25-5f93-729b-a777-e33743beb0a2',1794963238910800,'c','01a1ec25-6ff6-7fef-8b82-583ddd440e45','01a1ec256ff67fef8b82583ddd440e45','manual',0,'{"number":4,"id":"01a1ec25-6ff5-8000-8027-5aa4340c401b","job":"each","job_id":"01a1ec25-5f93-729b-a777-e33743beb0a2","handler":"each","trigger":"manual","trace_id":"01a1ec256ff67fef8b82583ddd440e45","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":5.0,\"multiplier\":2.0,\"max\":60.0,\"jitter\":0.0,\"delays\":[]}}","tenant":"c","parent_id":"01a1ec25-6ff6-7fef-8b82-583ddd440e45","created":1794963238910800,"due":1794963238910800,"share":"c","limits":"[{\"key\":\"fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45\",\"concurrency\":2}]"}');
INSERT INTO "mainspring_executions" VALUES(21,'01a1ec25-6ffc-83e6-bdd5-f477b16b5505','01a1ec25-5f93-729b-92e1-b5bed45fada5',1794963238915996,NULL,'01a1ec25-6ffc-7a51-acaf-775518d90ad5',NULL,'backfill',0,'{"number":1,"id":"01a1ec25-6ffc-83e6-bdd5-f477b16b5505","job":"filled","job_id":"01a1ec25-5f93-729b-92e1-b5bed45fada5","handler":"filled","trigger":"backfill","triggered_by":"ann","trace_id":"01a1ec256ffc83e6bdd5f477b16b5505","params":"{}","policy":"{\"max_attempts\":3,\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]},\"overlap\":\"skip\"}","window_begin":1794945600000000,"window_end":1794949200000000,"parent_id":"01a1ec25-6ffc-7a51-acaf-775518d90ad5","created":1794963238915996,"due":1794963238915996,"unique_key":"job:filled:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z"}');
INSERT INTO "mainspring_executions" VALUES(22,'01a1ec25-700b-7fa5-9f62-4b6d60d66cbd','01a1ec25-5f93-729b-be69-8d1ea813fae7',1794963238923978,NULL,NULL,NULL,NULL,0,'{"number":1,"id":"01a1ec25-700b-7fa5-9f62-4b6d60d66cbd","job":"one_at_a_time","job_id":"01a1ec25-5f93-729b-be69-8d1ea813fae7","handler":"one_at_a_time","trace_id":"01a1ec25700b7fa59f624b6d60d66cbd","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238923978,"due":1794963238923978,"limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"}');
INSERT INTO "mainspring_executions" VALUES(23,'01a1ec25-700e-7bc6-9e51-a724d605b34c','01a1ec25-5f93-729b-be69-8d1ea813fae7',1794963238926736,NULL,NULL,NULL,NULL,0,'{"number":2,"id":"01a1ec25-700e-7bc6-9e51-a724d605b34c","job":"one_at_a_time","job_id":"01a1ec25-5f93-729b-be69-8d1ea813fae7","handler":"one_at_a_time","trace_id":"01a1ec25700e7bc69e51a724d605b34c","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238926736,"due":1794963238926736,"limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"}');
INSERT INTO "mainspring_executions" VALUES(24,'01a1ec25-7010-7d5c-b682-d25379da714a','01a1ec25-5f93-729b-be69-8d1ea813fae7',1794963238928835,NULL,NULL,NULL,NULL,0,'{"number":3,"id":"01a1ec25-7010-7d5c-b682-d25379da714a","job":"one_at_a_time","job_id":"01a1ec25-5f93-729b-be69-8d1ea813fae7","handler":"one_at_a_time","trace_id":"01a1ec2570107d5cb682d25379da714a","params":"{}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238928835,"due":1794963238928835,"limits":"[{\"key\":\"one\",\"concurrency\":1},{\"key\":\"pace\",\"rate\":100.0,\"burst\":10}]"}');
INSERT INTO "mainspring_executions" VALUES(25,'01a1ec25-7017-7062-aef2-b468b1d20cb6','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963238935024,NULL,NULL,NULL,NULL,0,'{"number":5,"id":"01a1ec25-7017-7062-aef2-b468b1d20cb6","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec2570177062aef2b468b1d20cb6","params":"{\"item\":0}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238935024,"due":1794963238935024,"unique_key":"order-0"}');
INSERT INTO "mainspring_executions" VALUES(26,'01a1ec25-7023-7781-a4ee-6ac7bfc15bb7','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963238947469,NULL,NULL,NULL,NULL,0,'{"number":6,"id":"01a1ec25-7023-7781-a4ee-6ac7bfc15bb7","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec2570237781a4ee6ac7bfc15bb7","params":"{\"item\":1}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238947469,"due":1794963238947469,"unique_key":"order-1"}');
INSERT INTO "mainspring_executions" VALUES(27,'01a1ec25-7031-7839-808d-fa71d4b559bc','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963238961514,NULL,NULL,NULL,NULL,0,'{"number":7,"id":"01a1ec25-7031-7839-808d-fa71d4b559bc","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec2570317839808dfa71d4b559bc","params":"{\"item\":2}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963238961514,"due":1794963238961514,"unique_key":"order-2"}');
INSERT INTO "mainspring_executions" VALUES(28,'01a1ec25-7614-7831-8ca4-2a4b93a4f58e','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963240468512,NULL,NULL,NULL,NULL,0,'{"number":8,"id":"01a1ec25-7614-7831-8ca4-2a4b93a4f58e","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec25761478318ca42a4b93a4f58e","params":"{\"item\":10}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963240468512,"due":1794963270468353}');
INSERT INTO "mainspring_executions" VALUES(29,'01a1ec25-7616-7160-934e-e3a1b944076c','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963240470086,NULL,NULL,NULL,NULL,0,'{"number":9,"id":"01a1ec25-7616-7160-934e-e3a1b944076c","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"other","trace_id":"01a1ec2576167160934ee3a1b944076c","params":"{\"item\":11}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963240470086,"due":1794963270470233}');
INSERT INTO "mainspring_executions" VALUES(30,'01a1ec25-7618-7168-9b4b-c9bee296c6bf','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',1794963240472088,NULL,NULL,NULL,NULL,0,'{"number":10,"id":"01a1ec25-7618-7168-9b4b-c9bee296c6bf","job":"plain","job_id":"01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7","handler":"plain","queue":"slow","trace_id":"01a1ec25761871689b4bc9bee296c6bf","params":"{\"item\":12}","policy":"{\"retry\":{\"initial\":2.0,\"multiplier\":2.0,\"max\":null,\"jitter\":0.0,\"delays\":[]}}","created":1794963240472088,"due":1826499240472249,"unique_key":"held"}');
CREATE TABLE mainspring_history (
    seq         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL,
    job_id      TEXT NOT NULL,
    state       TEXT NOT NULL,
    started     INTEGER,
    finished    INTEGER,
    todo        INTEGER NOT NULL,                    -- 1: follow-ups not known to be done
    keep        INTEGER NOT NULL,                    -- 0: deleted once the follow-ups are done
    parent_id   TEXT,
    due         INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    claimed     INTEGER,
    unique_key  TEXT,
    overlap_key TEXT,
    attempts    TEXT,                                -- JSON; NULL: none
    tail        TEXT                                 -- JSON object of the rest; NULL: nothing
);
INSERT INTO "mainspring_history" VALUES(1,'01a1ec25-5fc4-751a-84d3-c358361cda4b','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','completed',1794963234761443,1794963234762550,0,1,NULL,1794963234756319,8131040971,1794963234761443,NULL,'01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234762225,"ended":1794963234762550,"end":"completed"}]','{"result_json":"{\"rows\":3}"}');
INSERT INTO "mainspring_history" VALUES(2,'01a1ec25-5fc9-7ca7-b9f0-135cc6492e39','01a1ec25-5f93-729b-8d94-f3c1e4b3de0e','failed',1794963234765607,1794963234790112,0,1,NULL,1794963234784641,12426008271,1794963234786113,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234767476,"ended":1794963234767667,"end":"failed","error":"ValueError: order 4711 has no address","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 43, in fails\n    raise ValueError(f\"order {order_id} has no address\")\nValueError: order 4711 has no address\n"},{"number":2,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234789356,"ended":1794963234790112,"end":"failed","error":"ValueError: order 4711 has no address","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 43, in fails\n    raise ValueError(f\"order {order_id} has no address\")\nValueError: order 4711 has no address\n"}]','{"failures":2,"reason":"error","error":"ValueError: order 4711 has no address"}');
INSERT INTO "mainspring_history" VALUES(3,'01a1ec25-5fcd-702d-b123-43789d163e63','01a1ec25-5f93-729b-8507-0f506c465205','skipped',1794963234769741,1794963234771336,0,1,NULL,1794963234765011,8131040973,1794963234769741,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234769951,"ended":1794963234771336,"end":"skipped"}]','{"reason":"nothing to do"}');
INSERT INTO "mainspring_history" VALUES(4,'01a1ec25-5fd2-774f-bfbb-f8639556d02a','01a1ec25-5f93-729b-a3a7-ed8a28ae2928','partial',1794963234774641,1794963234803515,0,1,NULL,1794963234770457,8131040974,1794963234774641,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234784374,"ended":1794963234797373,"end":"fanned_out"}]','{"reason":"children","error":"1 of 2 tenants did not complete","result_json":"{\"total\":2,\"success\":1,\"failed\":1}","counters_json":"{\"total\":2,\"success\":1,\"failed\":1}"}');
INSERT INTO "mainspring_history" VALUES(5,'01a1ec25-5fc4-8197-8bb0-383bb8e269a9','01a1ec25-5f93-729b-8c9a-5539fe7e0c00','completed',1794963234786113,1794963234790088,0,1,NULL,1794963234768597,8131040975,1794963234786113,NULL,'01a1ec25-5f93-729b-8c9a-5539fe7e0c00','[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234789334,"ended":1794963234790088,"end":"completed"}]','{"metadata_json":"{\"after\":{\"ok\":\"01a1ec25-5fc4-751a-84d3-c358361cda4b\"}}"}');
INSERT INTO "mainspring_history" VALUES(6,'01a1ec25-5fdb-7e6a-84fe-99d6d69fa54d','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963234786113,1794963234790026,0,1,NULL,1794963234779901,8131040975,1794963234786113,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234789184,"ended":1794963234790026,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(7,'01a1ec25-5fd1-8000-800b-b9b9fdea24d5','01a1ec25-5f93-729b-a3a7-ed8a28ae2928','completed',1794963234799376,1794963234799557,0,1,'01a1ec25-5fd2-774f-bfbb-f8639556d02a',1794963234796025,8131040978,1794963234799376,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234799376,"ended":1794963234799557,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(8,'01a1ec25-5fd1-8000-8010-4eb6ee60ab6a','01a1ec25-5f93-729b-a3a7-ed8a28ae2928','failed',1794963234799376,1794963234799546,0,1,'01a1ec25-5fd2-774f-bfbb-f8639556d02a',1794963234796025,8131040978,1794963234799376,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963234799376,"ended":1794963234799546,"end":"failed","error":"ValueError: tenant b fails","traceback":"Traceback (most recent call last):\n  File \"/app/tests/upgrades/make_dump.py\", line 52, in some\n    raise ValueError(\"tenant b fails\")\nValueError: tenant b fails\n"}]','{"failures":1,"reason":"error","error":"ValueError: tenant b fails"}');
INSERT INTO "mainspring_history" VALUES(9,'01a1ec25-5ff5-705e-bf09-9a2a8b5b5508','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','cancelled',NULL,1794963234807427,0,1,NULL,1794966834805937,0,NULL,NULL,NULL,NULL,'{"reason":"not needed"}');
INSERT INTO "mainspring_history" VALUES(10,'01a1ec25-613d-8f5e-82a8-236077bffcf8','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','completed',1794963235139233,1794963235139636,0,1,'01a1ec25-613d-76fd-9ed2-ef7e02d99587',1794963235137305,8131040985,1794963235139233,'job:ok:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z',NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963235139233,"ended":1794963235139636,"end":"completed"}]','{"result_json":"{\"rows\":3}"}');
INSERT INTO "mainspring_history" VALUES(11,'01a1ec25-6144-7f95-97b7-08db4323e56c','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963235145950,1794963236776562,0,1,NULL,1794963235140974,8131040987,1794963235145950,'once',NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236776004,"ended":1794963236776562,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(12,'01a1ec25-613d-8f27-b70a-3a99fd3170bc','01a1ec25-5f93-729b-8c9a-5539fe7e0c00','completed',1794963235145950,1794963236776518,0,1,NULL,1794963235143277,8131040987,1794963235145950,NULL,'01a1ec25-5f93-729b-8c9a-5539fe7e0c00','[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236775939,"ended":1794963236776518,"end":"completed"}]','{"metadata_json":"{\"after\":{\"ok\":\"01a1ec25-613d-8f5e-82a8-236077bffcf8\"}}"}');
INSERT INTO "mainspring_history" VALUES(13,'01a1ec25-613d-881d-bd85-ad1c851dfa74','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','completed',1794963236781283,1794963236785697,0,1,'01a1ec25-613d-76fd-9ed2-ef7e02d99587',1794963236777748,8131040989,1794963236781283,'job:ok:2026-11-17T21:00:00Z/2026-11-17T22:00:00Z',NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236785339,"ended":1794963236785697,"end":"completed"}]','{"result_json":"{\"rows\":3}"}');
INSERT INTO "mainspring_history" VALUES(14,'01a1ec25-67a9-82e1-aa2f-2406975714fa','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963236786411,1794963236787418,0,1,NULL,1794963236782646,8131040990,1794963236786411,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236787305,"ended":1794963236787418,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(15,'01a1ec25-67ba-8c15-ae72-578b84488492','01a1ec25-5f93-729b-abd2-ac583b2455bb','completed',1794963236797948,1794963236798852,0,1,NULL,1794963236796599,8131040992,1794963236797948,NULL,NULL,'[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236798737,"ended":1794963236798852,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(16,'01a1ec25-613d-82d4-a3c2-48ff367fccf4','01a1ec25-5f93-729b-8c9a-5539fe7e0c00','completed',1794963236799429,1794963236802369,0,1,NULL,1794963236795944,8131040993,1794963236799429,NULL,'01a1ec25-5f93-729b-8c9a-5539fe7e0c00','[{"number":1,"worker":"01a1ec25-5fad-7f6c-8338-080573e94f2f","started":1794963236802204,"ended":1794963236802369,"end":"completed"}]','{"metadata_json":"{\"after\":{\"ok\":\"01a1ec25-613d-881d-bd85-ad1c851dfa74\"}}"}');
INSERT INTO "mainspring_history" VALUES(25,'01a1ec25-7017-7062-aef2-b468b1d20cb6','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963238941278,1794963238942802,0,1,NULL,1794963238935024,5561833124,1794963238941278,'order-0',NULL,'[{"number":1,"worker":"01a1ec25-6ff2-7fef-8083-febc35891395","started":1794963238942695,"ended":1794963238942802,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(26,'01a1ec25-7023-7781-a4ee-6ac7bfc15bb7','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963238953380,1794963238954809,0,1,NULL,1794963238947469,5561833126,1794963238953380,'order-1',NULL,'[{"number":1,"worker":"01a1ec25-6ff2-7fef-8083-febc35891395","started":1794963238954700,"ended":1794963238954809,"end":"completed"}]',NULL);
INSERT INTO "mainspring_history" VALUES(27,'01a1ec25-7031-7839-808d-fa71d4b559bc','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','completed',1794963238962889,1794963238963512,0,1,NULL,1794963238961514,5561833128,1794963238962889,'order-2',NULL,'[{"number":1,"worker":"01a1ec25-6ff2-7fef-8083-febc35891395","started":1794963238963431,"ended":1794963238963512,"end":"completed"}]',NULL);
CREATE TABLE mainspring_incarnations (
    job_id      TEXT PRIMARY KEY,
    job         TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    ended       INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-8507-0f506c465205','skips',1,1);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-8c9a-5539fe7e0c00','after_ok',3,3);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-8d94-f3c1e4b3de0e','fails',1,1);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-92e1-b5bed45fada5','filled',1,0);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-a3a7-ed8a28ae2928','some',3,3);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-a777-e33743beb0a2','each',4,0);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-abd2-ac583b2455bb','hooked',1,1);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','plain',10,7);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','ok',3,3);
INSERT INTO "mainspring_incarnations" VALUES('01a1ec25-5f93-729b-be69-8d1ea813fae7','one_at_a_time',3,0);
CREATE TABLE mainspring_job_list (
    name      TEXT PRIMARY KEY,
    id        TEXT NOT NULL,
    handler   TEXT NOT NULL,
    queue     TEXT NOT NULL,
    origin    TEXT NOT NULL,
    paused    INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    planned   INTEGER NOT NULL,                      -- 1: it has a `due`
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL,
    search    TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_job_list" VALUES('after_ok','01a1ec25-5f93-729b-8c9a-5539fe7e0c00','after_ok','default','code',0,0,0,1794963234707163,1794963234707163,'after_okafter_ok');
INSERT INTO "mainspring_job_list" VALUES('each','01a1ec25-5f93-729b-a777-e33743beb0a2','each','default','code',0,0,0,1794963234707163,1794963234707163,'eacheach');
INSERT INTO "mainspring_job_list" VALUES('fails','01a1ec25-5f93-729b-8d94-f3c1e4b3de0e','fails','default','code',0,0,0,1794963234707163,1794963234707163,'failsfails');
INSERT INTO "mainspring_job_list" VALUES('filled','01a1ec25-5f93-729b-92e1-b5bed45fada5','filled','default','code',0,0,1,1794963234707163,1794963234707163,'filledfilled');
INSERT INTO "mainspring_job_list" VALUES('hooked','01a1ec25-5f93-729b-abd2-ac583b2455bb','hooked','default','code',0,0,0,1794963234707163,1794963234707163,'hookedhooked');
INSERT INTO "mainspring_job_list" VALUES('imported','01a1ec25-5f93-729b-ad86-d5aad22e1a9e','imported','default','code',0,0,1,1794963234707163,1794963238801356,'importedimported');
INSERT INTO "mainspring_job_list" VALUES('mainspring.webhooks','01a1ec25-6124-711a-805b-009d37a32d74','mainspring.webhooks','mainspring.webhooks','api',0,0,0,1794963235108069,1794963235108069,'mainspring.webhooksmainspring.webhookssends webhooks: one execution for each event and endpoint. its tenant is the endpoint.');
INSERT INTO "mainspring_job_list" VALUES('moved','01a1ec25-5f93-729b-b33d-9782d614fdc4','moved','default','code',0,0,1,1794963234707163,1794963238893100,'movedmoved');
INSERT INTO "mainspring_job_list" VALUES('ok','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42','ok','default','code',0,0,1,1794963234707163,1794963234707163,'okok');
INSERT INTO "mainspring_job_list" VALUES('one_at_a_time','01a1ec25-5f93-729b-be69-8d1ea813fae7','one_at_a_time','default','code',0,0,0,1794963234707163,1794963234707163,'one_at_a_timeone_at_a_time');
INSERT INTO "mainspring_job_list" VALUES('paused','01a1ec25-5f93-729b-93e6-913dd8add7cd','paused','default','code',1,0,0,1794963234707163,1794963234809214,'pausedpaused');
INSERT INTO "mainspring_job_list" VALUES('plain','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7','plain','slow','code',0,0,0,1794963234707163,1794963235034486,'plainplain');
INSERT INTO "mainspring_job_list" VALUES('skips','01a1ec25-5f93-729b-8507-0f506c465205','skips','default','code',0,0,0,1794963234707163,1794963234707163,'skipsskips');
INSERT INTO "mainspring_job_list" VALUES('some','01a1ec25-5f93-729b-a3a7-ed8a28ae2928','some','default','code',0,0,0,1794963234707163,1794963234707163,'somesome');
CREATE TABLE mainspring_jobs (
    name       TEXT PRIMARY KEY,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,
    origin     TEXT NOT NULL,
    declared   TEXT NOT NULL,
    overrides  TEXT NOT NULL,
    release    TEXT NOT NULL,
    next_run   INTEGER,
    last_tick  INTEGER,
    anchor     INTEGER NOT NULL,
    paused     INTEGER,
    paused_by  TEXT,
    pause_note TEXT,
    resume     INTEGER,
    cancelled  INTEGER,
    sweep      INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    due        INTEGER               -- when the scheduler has to look at it next; NULL: never
);
INSERT INTO "mainspring_jobs" VALUES('ok','01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42',2,'code','{"handler":"ok","trigger":{"kind":"every","seconds":3600},"max_attempts":3,"overlap":"skip","window":"previous_hour","metadata":{"team":"billing"},"feeds":true}','{}','41',1794966834707163,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,1794966834707163);
INSERT INTO "mainspring_jobs" VALUES('after_ok','01a1ec25-5f93-729b-8c9a-5539fe7e0c00',1,'code','{"handler":"after_ok","max_attempts":3,"overlap":"skip","after":["ok"]}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('fails','01a1ec25-5f93-729b-8d94-f3c1e4b3de0e',1,'code','{"handler":"fails","max_attempts":2,"retry":{"initial":0.01,"multiplier":2.0,"max":null,"jitter":0.0,"delays":[]}}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('skips','01a1ec25-5f93-729b-8507-0f506c465205',1,'code','{"handler":"skips"}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('some','01a1ec25-5f93-729b-a3a7-ed8a28ae2928',1,'code','{"handler":"some","tenants":true,"tenant_max_attempts":1}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('paused','01a1ec25-5f93-729b-93e6-913dd8add7cd',2,'code','{"handler":"paused","trigger":{"kind":"every","seconds":86400},"max_attempts":3,"overlap":"skip"}','{}','41',1795049634707163,NULL,1794963234707163,1794963234809214,'ann','audit',NULL,NULL,0,1794963234707163,1794963234809214,NULL);
INSERT INTO "mainspring_jobs" VALUES('plain','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',2,'code','{"handler":"plain"}','{"queue":"slow"}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963235034486,NULL);
INSERT INTO "mainspring_jobs" VALUES('hooked','01a1ec25-5f93-729b-abd2-ac583b2455bb',1,'code','{"handler":"hooked"}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('imported','01a1ec25-5f93-729b-ad86-d5aad22e1a9e',2,'code','{"handler":"imported"}','{"trigger":{"kind":"every","seconds":86400,"start":"1970-01-01T04:30:00Z"}}','41',1794976200000000,NULL,1794963238801356,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963238801356,1794976200000000);
INSERT INTO "mainspring_jobs" VALUES('filled','01a1ec25-5f93-729b-92e1-b5bed45fada5',1,'code','{"handler":"filled","trigger":{"kind":"every","seconds":3600},"max_attempts":3,"overlap":"skip","window":"previous_hour"}','{}','41',1794966834707163,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,1794966834707163);
INSERT INTO "mainspring_jobs" VALUES('moved','01a1ec25-5f93-729b-b33d-9782d614fdc4',2,'code','{"handler":"moved","trigger":{"kind":"every","seconds":10800},"max_attempts":3,"overlap":"skip","window":"previous_hour"}','{}','41',1794974038893100,NULL,1794963238893100,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963238893100,1794974038893100);
INSERT INTO "mainspring_jobs" VALUES('one_at_a_time','01a1ec25-5f93-729b-be69-8d1ea813fae7',1,'code','{"handler":"one_at_a_time","limits":[{"key":"one","concurrency":1},{"key":"pace","rate":100.0,"burst":10}]}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('each','01a1ec25-5f93-729b-a777-e33743beb0a2',1,'code','{"handler":"each","tenants":true,"tenant_concurrency":2}','{}','41',NULL,NULL,1794963234707163,NULL,NULL,NULL,NULL,NULL,0,1794963234707163,1794963234707163,NULL);
INSERT INTO "mainspring_jobs" VALUES('mainspring.webhooks','01a1ec25-6124-711a-805b-009d37a32d74',1,'api','{"handler":"mainspring.webhooks","queue":"mainspring.webhooks","retry":{"initial":2.0,"multiplier":2.0,"max":null,"jitter":0.1,"delays":[5.0,300.0,1800.0,7200.0,18000.0,36000.0,50400.0,72000.0,86400.0]},"timeout":30.0,"description":"Sends webhooks: one execution for each event and endpoint. Its tenant is the endpoint.","trigger_role":"admin","limits":[{"key":"webhook:{tenant}","concurrency":4}]}','{}','41',NULL,NULL,1794963235108069,NULL,NULL,NULL,NULL,NULL,0,1794963235108069,1794963235108069,NULL);
CREATE TABLE mainspring_live (
    seq                 INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL,
    job_id              TEXT NOT NULL,
    phase               INTEGER NOT NULL,            -- pending: 0 due later, 1 ready, 4 parked; 2 running; 3 waiting
    lane                TEXT NOT NULL,               -- queue/handler, with /alone if exclusive, //fair with a share
    priority            INTEGER NOT NULL,
    due                 INTEGER NOT NULL,
    token               INTEGER NOT NULL DEFAULT 0,
    owner               TEXT,
    lease               INTEGER,
    claimed             INTEGER,
    started             INTEGER,
    parent_id           TEXT,
    unique_key          TEXT,
    overlap_key         TEXT,
    running_unique_key  TEXT,
    running_overlap_key TEXT,
    staged              INTEGER NOT NULL DEFAULT 0,
    blocked             INTEGER NOT NULL DEFAULT 0,  -- 1: deferred because a running key was held
    cancel_requested    INTEGER,
    cancel_reason       TEXT,
    tail                TEXT,                        -- JSON object of what rarely changes; NULL: nothing
    share               TEXT,
    tag                 INTEGER NOT NULL DEFAULT 0,
    parked              TEXT,
    line                TEXT,
    place               INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "mainspring_live" VALUES(17,'01a1ec25-6ff6-7fef-8b82-583ddd440e45','01a1ec25-5f93-729b-a777-e33743beb0a2',3,'default/each',0,1794963238902996,5561833117,NULL,NULL,1794963238907334,1794963238907334,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,'{"attempts_json":"[{\"number\":1,\"worker\":\"01a1ec25-6ff2-7fef-8083-febc35891395\",\"started\":1794963238907886,\"ended\":1794963238913333,\"end\":\"fanned_out\"}]","counters_json":"{\"total\":3}"}',NULL,0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(18,'01a1ec25-6ff5-8000-8009-9f0030d14414','01a1ec25-5f93-729b-a777-e33743beb0a2',2,'default/each//fair',0,1794963238910800,5561833118,'01a1ec25-6ff2-7fef-8083-febc35891395',1794963250307783,1794963238917474,1794963238917474,'01a1ec25-6ff6-7fef-8b82-583ddd440e45',NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'a',0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(19,'01a1ec25-6ff5-8000-8013-deb0ba83b93d','01a1ec25-5f93-729b-a777-e33743beb0a2',2,'default/each//fair',0,1794963238910800,5561833118,'01a1ec25-6ff2-7fef-8083-febc35891395',1794963250307783,1794963238917474,1794963238917474,'01a1ec25-6ff6-7fef-8b82-583ddd440e45',NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'b',0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(20,'01a1ec25-6ff5-8000-8027-5aa4340c401b','01a1ec25-5f93-729b-a777-e33743beb0a2',4,'default/each//fair',0,1794963238910800,0,NULL,NULL,NULL,NULL,'01a1ec25-6ff6-7fef-8b82-583ddd440e45',NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'c',0,'slot:fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45','2 default/each//fair',0);
INSERT INTO "mainspring_live" VALUES(21,'01a1ec25-6ffc-83e6-bdd5-f477b16b5505','01a1ec25-5f93-729b-92e1-b5bed45fada5',2,'default/filled',0,1794963238915996,5561833119,'01a1ec25-6ff2-7fef-8083-febc35891395',1794963250307783,1794963238922198,1794963238922198,'01a1ec25-6ffc-7a51-acaf-775518d90ad5','job:filled:2026-11-17T20:00:00Z/2026-11-17T21:00:00Z',NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(22,'01a1ec25-700b-7fa5-9f62-4b6d60d66cbd','01a1ec25-5f93-729b-be69-8d1ea813fae7',2,'default/one_at_a_time',0,1794963238923978,5561833121,'01a1ec25-6ff2-7fef-8083-febc35891395',1794963250307783,1794963238929353,1794963238929353,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(23,'01a1ec25-700e-7bc6-9e51-a724d605b34c','01a1ec25-5f93-729b-be69-8d1ea813fae7',4,'default/one_at_a_time',0,1794963238926736,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,'slot:one','1 default/one_at_a_time',0);
INSERT INTO "mainspring_live" VALUES(24,'01a1ec25-7010-7d5c-b682-d25379da714a','01a1ec25-5f93-729b-be69-8d1ea813fae7',4,'default/one_at_a_time',0,1794963238928835,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,'slot:one','1 default/one_at_a_time',0);
INSERT INTO "mainspring_live" VALUES(28,'01a1ec25-7614-7831-8ca4-2a4b93a4f58e','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',0,'slow/plain',0,1794963270468353,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(29,'01a1ec25-7616-7160-934e-e3a1b944076c','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',0,'other/plain',0,1794963270470233,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,0);
INSERT INTO "mainspring_live" VALUES(30,'01a1ec25-7618-7168-9b4b-c9bee296c6bf','01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',0,'slow/plain',0,1826499240472249,0,NULL,NULL,NULL,NULL,NULL,'held',NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,0);
CREATE TABLE mainspring_locks (
    name     TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    token    INTEGER NOT NULL,
    acquired INTEGER NOT NULL,
    expires  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_locks" VALUES('import','vm:30020',1,1794963235140896,2110323235140896);
CREATE TABLE mainspring_logs (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    level        TEXT NOT NULL,
    message      TEXT NOT NULL, logger TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (execution_id, seq)
) WITHOUT ROWID;
INSERT INTO "mainspring_logs" VALUES('01a1ec25-5fc4-751a-84d3-c358361cda4b',1,1794963234762441,'WARNING','a line of the log','mainspring.job');
INSERT INTO "mainspring_logs" VALUES('01a1ec25-613d-881d-bd85-ad1c851dfa74',1,1794963236785589,'WARNING','a line of the log','mainspring.job');
INSERT INTO "mainspring_logs" VALUES('01a1ec25-613d-8f5e-82a8-236077bffcf8',1,1794963235139301,'WARNING','a line of the log','mainspring.job');
CREATE TABLE mainspring_meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_meta" VALUES('lock_token',1);
INSERT INTO "mainspring_meta" VALUES('schema',2);
CREATE TABLE mainspring_purges (
    job_id TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE mainspring_slots (
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) WITHOUT ROWID;
INSERT INTO "mainspring_slots" VALUES('fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45',18);
INSERT INTO "mainspring_slots" VALUES('fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45',19);
INSERT INTO "mainspring_slots" VALUES('one',22);
INSERT INTO "mainspring_slots" VALUES('pace',22);
CREATE TABLE mainspring_totals (
    job_id        TEXT PRIMARY KEY,
    completed     INTEGER NOT NULL,
    partial       INTEGER NOT NULL,
    failed        INTEGER NOT NULL,
    cancelled     INTEGER NOT NULL,
    skipped       INTEGER NOT NULL,
    duration_ms   REAL NOT NULL,
    timed         INTEGER NOT NULL,
    rescued       INTEGER NOT NULL,
    last_id       TEXT NOT NULL,
    last_state    TEXT,
    last_started  INTEGER,
    last_finished INTEGER,
    last_error    TEXT,
    last_failures INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-8507-0f506c465205',0,0,0,0,1,0.0,0,0,'',NULL,NULL,NULL,NULL,0);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-8c9a-5539fe7e0c00',3,0,0,0,0,1637.483,3,0,'01a1ec25-613d-8f27-b70a-3a99fd3170bc','completed',1794963235145950,1794963236776518,NULL,0);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-8d94-f3c1e4b3de0e',0,0,1,0,0,24.505,1,0,'01a1ec25-5fc9-7ca7-b9f0-135cc6492e39','failed',1794963234765607,1794963234790112,'ValueError: order 4711 has no address',2);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-a3a7-ed8a28ae2928',1,1,1,0,0,2.92249999999999978675e+01,3,0,'01a1ec25-5fd2-774f-bfbb-f8639556d02a','partial',1794963234774641,1794963234803515,'1 of 2 tenants did not complete',0);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-abd2-ac583b2455bb',1,0,0,0,0,0.904,1,0,'01a1ec25-67ba-8c15-ae72-578b84488492','completed',1794963236797948,1794963236798852,NULL,0);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-b0d0-1f9e4d2eb0c7',6,0,0,1,0,1.63910800000000017465e+03,6,0,'01a1ec25-7031-7839-808d-fa71d4b559bc','completed',1794963238962889,1794963238963512,NULL,0);
INSERT INTO "mainspring_totals" VALUES('01a1ec25-5f93-729b-b2e6-fa9aa9ee1a42',3,0,0,0,0,5.9239999999999994884e+00,3,0,'01a1ec25-613d-8f5e-82a8-236077bffcf8','completed',1794963235139233,1794963235139636,NULL,0);
CREATE TABLE mainspring_waits (
    parked TEXT PRIMARY KEY,
    look   INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_waits" VALUES('slot:fan-out:01a1ec25-6ff6-7fef-8b82-583ddd440e45',1794963243917474);
INSERT INTO "mainspring_waits" VALUES('slot:one',1794963243929353);
CREATE TABLE mainspring_workers (
    id   TEXT PRIMARY KEY,
    seen INTEGER NOT NULL,
    info TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "mainspring_workers" VALUES('01a1ec25-6ff2-7fef-8083-febc35891395',1794963240307783,'{"id":"01a1ec25-6ff2-7fef-8083-febc35891395","host":"vm","pid":30020,"version":"0.1.0","roles":["scheduler","worker"],"queues":null,"handlers":["after_ok","each","fails","filled","hooked","imported","mainspring.webhooks","moved","ok","one_at_a_time","paused","plain","skips","some"],"declares":["ok","after_ok","fails","skips","some","paused","plain","hooked","imported","filled","moved","one_at_a_time","each"],"concurrency":8,"running":4,"lease":10.0,"started":1794963238898996,"seen":1794963240307783}');
CREATE INDEX mainspring_jobs_due ON mainspring_jobs (due, name) WHERE due IS NOT NULL;
CREATE INDEX mainspring_jobs_sweep ON mainspring_jobs (name) WHERE sweep = 1;
CREATE INDEX mainspring_job_list_id ON mainspring_job_list (id);
CREATE INDEX mainspring_job_list_handler ON mainspring_job_list (handler);
CREATE INDEX mainspring_job_list_handler_back ON mainspring_job_list (handler DESC, name);
CREATE INDEX mainspring_job_list_queue ON mainspring_job_list (queue);
CREATE INDEX mainspring_job_list_origin ON mainspring_job_list (origin);
CREATE INDEX mainspring_job_list_created ON mainspring_job_list (created);
CREATE INDEX mainspring_job_list_updated ON mainspring_job_list (updated);
CREATE INDEX mainspring_job_list_paused ON mainspring_job_list (name) WHERE paused = 1;
CREATE INDEX mainspring_job_list_cancelled ON mainspring_job_list (name) WHERE cancelled = 1;
CREATE INDEX mainspring_job_list_on_demand ON mainspring_job_list (name) WHERE planned = 0;
CREATE INDEX mainspring_incarnations_job ON mainspring_incarnations (job);
CREATE INDEX mainspring_incarnations_live ON mainspring_incarnations (job_id) WHERE last_number > ended;
CREATE INDEX mainspring_totals_rare ON mainspring_totals (last_state) WHERE last_state <> 'completed';
CREATE INDEX mainspring_executions_job ON mainspring_executions (job_id, id);
CREATE INDEX mainspring_executions_tenant ON mainspring_executions (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX mainspring_executions_parent ON mainspring_executions (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX mainspring_executions_trace ON mainspring_executions (foreign_trace, id) WHERE foreign_trace IS NOT NULL;
CREATE INDEX mainspring_executions_stray ON mainspring_executions (created, id) WHERE stray = 1;
CREATE INDEX mainspring_executions_trigger ON mainspring_executions (rare_trigger, id) WHERE rare_trigger IS NOT NULL;
CREATE INDEX mainspring_executions_job_trigger ON mainspring_executions (job_id, rare_trigger, id)
    WHERE rare_trigger IS NOT NULL;
CREATE INDEX mainspring_live_scheduled ON mainspring_live (due) WHERE phase = 0;
CREATE INDEX mainspring_live_ready ON mainspring_live (lane, priority DESC, tag, id) WHERE phase = 1;
CREATE INDEX mainspring_live_share ON mainspring_live (lane, share, priority, tag)
    WHERE share IS NOT NULL AND phase = 1;
CREATE INDEX mainspring_live_parked ON mainspring_live (parked, line, priority DESC, place, id) WHERE phase = 4;
CREATE INDEX mainspring_live_places ON mainspring_live (parked, line, share, priority, place)
    WHERE share IS NOT NULL AND phase = 4;
CREATE INDEX mainspring_live_lease ON mainspring_live (lease) WHERE phase = 2;
CREATE INDEX mainspring_live_waiting ON mainspring_live (job_id) WHERE phase = 3;
CREATE INDEX mainspring_live_job ON mainspring_live (job_id, id);
CREATE INDEX mainspring_live_parent ON mainspring_live (parent_id, phase) WHERE parent_id IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_unique ON mainspring_live (unique_key) WHERE unique_key IS NOT NULL;
CREATE UNIQUE INDEX mainspring_live_overlap ON mainspring_live (overlap_key) WHERE overlap_key IS NOT NULL;
CREATE INDEX mainspring_live_blocked_unique ON mainspring_live (running_unique_key, priority DESC, id)
    WHERE blocked = 1;
CREATE INDEX mainspring_live_blocked_overlap ON mainspring_live (running_overlap_key, priority DESC, id)
    WHERE blocked = 1;
CREATE INDEX mainspring_live_begun ON mainspring_live (started) WHERE phase IN (0, 1, 4) AND started IS NOT NULL;
CREATE INDEX mainspring_live_cancel ON mainspring_live (id) WHERE cancel_requested IS NOT NULL;
CREATE INDEX mainspring_history_outcome ON mainspring_history (state, id) WHERE state <> 'completed';
CREATE INDEX mainspring_history_job_outcome ON mainspring_history (job_id, state, id) WHERE state <> 'completed';
CREATE INDEX mainspring_history_todo ON mainspring_history (id) WHERE todo = 1;
CREATE INDEX mainspring_history_parent ON mainspring_history (parent_id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX mainspring_history_started ON mainspring_history (started);
CREATE INDEX mainspring_waits_look ON mainspring_waits (look);
CREATE INDEX mainspring_audit_target ON mainspring_audit (target, id);
CREATE VIEW mainspring_view_jobs AS
SELECT
    j.name AS job_name,
    json_extract(json_patch(j.declared, j.overrides), '$.handler') AS handler,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.queue'), 'default') AS queue,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.priority'), 0) AS priority,
    json_extract(j.declared, '$.trigger') AS trigger,
    json_extract(json_patch(j.declared, j.overrides), '$.description') AS description,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.enabled'), 1) AS enabled,
    coalesce(json_extract(json_patch(j.declared, j.overrides), '$.max_attempts'), 10) AS max_attempts,
    j.origin,
    j.release,
    j.version,
    j.paused IS NOT NULL AS paused,
    j.paused_by,
    j.cancelled IS NOT NULL AS cancelled,
    CASE WHEN j.paused IS NULL AND j.due IS NOT NULL THEN
        strftime('%Y-%m-%dT%H:%M:%S', j.next_run / 1000000, 'unixepoch') || printf('.%06dZ', j.next_run % 1000000)
    END AS next_run_at,
    strftime('%Y-%m-%dT%H:%M:%S', j.last_tick / 1000000, 'unixepoch') || printf('.%06dZ', j.last_tick % 1000000)
        AS last_tick_at,
    coalesce(i.last_number, 0) AS last_number,
    t.last_state AS last_status,
    strftime('%Y-%m-%dT%H:%M:%S', t.last_finished / 1000000, 'unixepoch') || printf('.%06dZ', t.last_finished % 1000000)
        AS last_finished_at,
    coalesce(t.completed, 0) AS completed,
    coalesce(t.partial, 0) AS partial,
    coalesce(t.failed, 0) AS failed,
    coalesce(t.cancelled, 0) AS cancelled_count,
    coalesce(t.skipped, 0) AS skipped,
    strftime('%Y-%m-%dT%H:%M:%S', j.created / 1000000, 'unixepoch') || printf('.%06dZ', j.created % 1000000)
        AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', j.updated / 1000000, 'unixepoch') || printf('.%06dZ', j.updated % 1000000)
        AS updated_at
FROM mainspring_jobs j
LEFT JOIN mainspring_incarnations i ON i.job_id = j.id
LEFT JOIN mainspring_totals t ON t.job_id = j.id;
CREATE VIEW mainspring_view_job_executions AS
SELECT
    x.id AS execution_id,
    x.job AS job_name,
    json_extract(x.body, '$.handler') AS handler,
    coalesce(json_extract(x.body, '$.queue'), 'default') AS queue,
    coalesce(nullif(json_extract(x.body, '$.trace_id'), ''), replace(x.id, '-', '')) AS trace_id,
    x.status,
    coalesce(json_extract(x.body, '$.trigger'), 'enqueue') AS trigger_type,
    coalesce(json_extract(x.body, '$.triggered_by'), 'system') AS triggered_by,
    json_extract(x.body, '$.number') AS number,
    coalesce(json_extract(x.body, '$.params'), '{}') AS params,
    x.tenant,
    x.parent_id,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.tick') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.tick') % 1000000) AS scheduled_at,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.window_begin') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.window_begin') % 1000000) AS window_begin,
    strftime('%Y-%m-%dT%H:%M:%S', json_extract(x.body, '$.window_end') / 1000000, 'unixepoch')
        || printf('.%06dZ', json_extract(x.body, '$.window_end') % 1000000) AS window_end,
    coalesce(json_extract(x.body, '$.priority'), 0) AS priority,
    max(coalesce(json_extract(x.tail, '$.failures'), 0) + (x.status <> 'failed'), 1) AS attempt,
    coalesce(json_extract(json_extract(x.body, '$.policy'), '$.max_attempts'), 10) AS max_attempts,
    json_extract(x.tail, '$.reason') AS reason,
    json_extract(x.tail, '$.error') AS error_message,
    json_extract(x.tail, '$.result_json') AS result,
    json_extract(x.tail, '$.counters_json') AS counters,
    json_extract(x.tail, '$.metadata_json') AS metadata,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.total'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id)
        + (SELECT count(*) FROM mainspring_live c WHERE c.parent_id = x.id)
    ) END AS tenants_total,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.success'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id AND c.state = 'completed')
    ) END AS tenants_success,
    CASE WHEN x.tenant IS NULL AND json_extract(json_extract(x.body, '$.policy'), '$.fan_out') IS NOT NULL
    THEN coalesce(
        json_extract(json_extract(x.tail, '$.result_json'), '$.failed'),
        (SELECT count(*) FROM mainspring_history c WHERE c.parent_id = x.id AND c.state NOT IN ('completed', 'skipped'))
    ) END AS tenants_failed,
    strftime('%Y-%m-%dT%H:%M:%S', x.created / 1000000, 'unixepoch') || printf('.%06dZ', x.created % 1000000)
        AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.started / 1000000, 'unixepoch') || printf('.%06dZ', x.started % 1000000)
        AS started_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.finished / 1000000, 'unixepoch') || printf('.%06dZ', x.finished % 1000000)
        AS finished_at,
    (x.finished - x.started) / 1000.0 AS duration_ms,
    x.worker,
    x.started AS started_us
FROM (
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'running' AS status, e.body, l.tail, e.created,
        NULL AS finished, l.owner AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase = 2
    UNION ALL
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'waiting' AS status, e.body, l.tail, e.created,
        NULL AS finished, json_extract(json_extract(l.tail, '$.attempts_json'), '$[#-1].worker') AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase = 3
    UNION ALL
    SELECT e.id, i.job, l.started, e.tenant, e.parent_id, 'pending' AS status, e.body, l.tail, e.created,
        NULL AS finished, json_extract(json_extract(l.tail, '$.attempts_json'), '$[#-1].worker') AS worker
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.phase IN (0, 1, 4)
    UNION ALL
    SELECT e.id, i.job, h.started, e.tenant, e.parent_id, h.state AS status, e.body, h.tail, e.created,
        h.finished AS finished, json_extract(h.attempts, '$[#-1].worker') AS worker
    FROM mainspring_history h JOIN mainspring_executions e ON e.seq = h.seq
        JOIN mainspring_incarnations i ON i.job_id = e.job_id
) x;
CREATE VIEW mainspring_view_tenant_executions AS
SELECT execution_id, parent_id AS parent_execution_id, tenant, job_name, trace_id, status, trigger_type, attempt,
    max_attempts, error_message, started_at, finished_at, duration_ms, window_begin, window_end, worker, started_us
FROM mainspring_view_job_executions
WHERE tenant IS NOT NULL AND parent_id IS NOT NULL;
CREATE VIEW mainspring_view_locks AS
SELECT x.name, x.owner, x.token,
    strftime('%Y-%m-%dT%H:%M:%S', x.since / 1000000, 'unixepoch') || printf('.%06dZ', x.since % 1000000)
        AS acquired_at,
    strftime('%Y-%m-%dT%H:%M:%S', x.until / 1000000, 'unixepoch') || printf('.%06dZ', x.until % 1000000)
        AS expires_at,
    x.kind, x.job_name, x.execution_id, x.status
FROM (
    SELECT name, owner, token, acquired AS since, expires AS until, 'lock' AS kind, NULL AS job_name,
        NULL AS execution_id, NULL AS status
    FROM mainspring_locks
    WHERE expires > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
    UNION ALL
    SELECT l.overlap_key, l.owner, l.token, coalesce(l.started, e.created), l.lease, 'overlap', i.job, l.id,
        CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.overlap_key IS NOT NULL
    UNION ALL
    SELECT l.unique_key, l.owner, l.token, coalesce(l.started, e.created), l.lease, 'unique', i.job, l.id,
        CASE l.phase WHEN 2 THEN 'running' WHEN 3 THEN 'waiting' ELSE 'pending' END
    FROM mainspring_live l JOIN mainspring_executions e ON e.seq = l.seq
        JOIN mainspring_incarnations i ON i.job_id = l.job_id
    WHERE l.unique_key IS NOT NULL
) x;
COMMIT;
