ALTER TABLE jobs ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;  -- 1: nobody finds it; its rows are being deleted
CREATE INDEX jobs_removed ON jobs (number) WHERE removed = 1;
