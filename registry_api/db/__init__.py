"""What Postgres holds: tables, sessions, migrations."""
