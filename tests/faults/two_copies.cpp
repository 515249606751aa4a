// SPDX-License-Identifier: Apache-2.0
// Run: two_copies PLUGIN OTHER_PLUGIN. A host that loads two plug-ins, each with a static copy of Torchweave. The second copy must refuse to start.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <initializer_list>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int outcome = 0;
  for (int i = 1; i < argc; ++i) {
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    for (const char* name : {"record", "start"}) {
      auto* function = plugin == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(plugin, name));
      if (function == nullptr) {
        std::puts(dlerror());
        return 2;
      }
      try {
        function();
        std::printf("%s in %s: done; ", name, argv[i]);
      } catch (const std::exception& error) {
        std::printf("%s in %s: %s; ", name, argv[i], error.what());
        outcome = 1;
      }
    }
  }
  std::puts("");
  MPI_Finalize();
  return outcome;
}
