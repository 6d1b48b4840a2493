"""The page's tabs, a file each."""
