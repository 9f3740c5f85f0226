"""Cut a placed graph: a Send and a Recv wherever an edge crosses devices, one pair per rendezvous key."""
