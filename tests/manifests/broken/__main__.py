from tests.manifests.broken.running import write_golden

write_golden()
