"""What table formats share: data files that lie in the table before the table knows them."""
