"""What is asked of a cluster: the verbs of kcctl, and ours, over HTTP against any worker.

A cluster is the URL of a worker – ours or Kafka's – or a log, which is then served within this
process. One file per verb; `api` speaks, `connection` finds whom to speak to.
"""
