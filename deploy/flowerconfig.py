"""Flower in a container: read-only, its history in /data. The login comes from FLOWER_BASIC_AUTH (user:password)."""

address = "0.0.0.0"  # noqa: S104 - compose publishes it on 127.0.0.1 alone
port = 5555
read_only = True
persistent = True
db = "/data/flower"
state_save_interval = 3000
max_tasks = 20000
purge_offline_workers = 3600
tasks_columns = "name,state,args,received,runtime,worker,started,uuid"
