"""`python -m workers.node`: the node worker."""

from workers.node.app import main

main()
