// SPDX-License-Identifier: Apache-2.0
// Run: two_copies PLUGIN OTHER_PLUGIN. A host that loads two plug-ins, each with a static copy of Torchweave. The second copy must refuse to start.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int outcome = 0;
  for (int i = 1; i < argc; ++i) {
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    auto* start = plugin == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(plugin, "start"));
    if (start == nullptr) {
      std::puts(dlerror());
      return 2;
    }
    try {
      start();
      std::printf("%s has started\n", argv[i]);
    } catch (const std::exception& error) {
      std::puts(error.what());
      outcome = 1;
    }
  }
  MPI_Finalize();
  return outcome;
}
