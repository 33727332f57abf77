ALTER TABLE traffic ADD COLUMN plan TEXT;  -- how the gradients of the job travel; in the row of worker 0
