"""What every benchmark row needs: processes, load, accounting, statistics and the table."""
