"""Push: begin, upload, finish, verify, publish."""
