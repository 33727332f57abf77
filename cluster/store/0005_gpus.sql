ALTER TABLE workers ADD COLUMN gpus TEXT NOT NULL DEFAULT '[]';  -- booked for it: [{"uuid": "GPU-...", "share": 0.5}]
