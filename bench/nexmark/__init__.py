"""NEXMark: an auction site's people, auctions and bids, and what is asked about them."""
