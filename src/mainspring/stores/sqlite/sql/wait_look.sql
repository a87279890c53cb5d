UPDATE mainspring_waits SET look = ?2 WHERE parked = ?1
