"""What goes wrong on purpose: slow devices, noise, pauses, crashes, links."""
