"""From what is wanted, recorded and observed to a plan. Pure: nothing here reads, writes or waits."""
