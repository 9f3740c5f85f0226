"""Parts of an estimate: ops that GPUs run as one, their collectives, memory that stays, and notes on assumptions."""
