-- What each worker of a job's newest attempt has exchanged. The columns are JSON: one row is read and written whole.
CREATE TABLE traffic (
  job     TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  worker  INTEGER NOT NULL,
  totals  TEXT NOT NULL,
  sampled TEXT,  -- a recent step
  slowest TEXT,  -- the slowest step
  PRIMARY KEY (job, attempt, worker)
);
