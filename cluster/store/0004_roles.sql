ALTER TABLE workers ADD COLUMN role INTEGER NOT NULL DEFAULT 0;  -- 0: worker, 1: server, 2: state server
