// SPDX-License-Identifier: Apache-2.0
// Preloaded: the MPI that is loaded says that it is another one.
#include <mpi.h>

#include <cstring>

extern "C" int MPI_Get_library_version(char* text, int* length) {
#ifdef OPEN_MPI
  std::strcpy(text, "MPICH Version: 4.0.2");
#else
  std::strcpy(text, "Open MPI v4.1.4");
#endif
  *length = static_cast<int>(std::strlen(text));
  return MPI_SUCCESS;
}
