"""Coverage: the offsets that an archive lacks, and what is doubtful without them."""
