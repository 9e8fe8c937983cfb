"""A program in a node that writes and reads several objects, each of one value, as a test tells it."""

import stillframe as sf
from puppet import serve


class Several:
    def __init__(self):
        self.objects = {}
        self.writing = {}

    def create(self, names):
        for name in names:
            self.objects[name] = sf.create_object(name, "var grid [64] int64")

    def find(self, names):
        for name in names:
            self.objects[name] = sf.object(name, wait=60)

    def write(self, name, wait):
        """Takes all elements of an object: above which version it publishes."""
        self.writing[name] = self.objects[name].write("{ var own = grid }", zeros=True, keep=32, wait=wait)
        return self.writing[name].version

    def publish(self, name, version, value):
        self.writing[name].arrays["own"][:] = value
        self.writing[name].publish(version)

    def newest(self, name):
        return self.objects[name].newest()

    def complete(self, name):
        """All versions that are complete and can be had, with what each has."""
        seen = self.objects[name].read("{ var seen = grid }")
        versions = {}
        for version in self.objects[name].versions():
            seen.reattach(version, timeout=60)
            versions[version] = int(seen.arrays["seen"][0])
        return versions


if __name__ == "__main__":
    serve(Several())
