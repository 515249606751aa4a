# Which MPI, and all in which one differs from another when ranks are started and when they end.
#   -DTW_MPI=openmpi|mpich   takes that one, by Debian's names, where several are installed; empty: whichever CMake finds
#   TW_MPI_NAME, TW_MPI_VERSION   which one it is
#   TW_MPI_LAUNCHER          build/<preset>/mpirun: starts ranks as root, more than there are cores, on any core
#   TW_MPI_ENVIRONMENT       of tests, where ranks wait for each other on too few cores
#   TW_MPI_SAYS_KILLED       what the launcher prints of rank 1 that was ended by SIGKILL, as a regular expression
set(TW_MPI "" CACHE STRING "openmpi or mpich; empty: the one that CMake finds")
if(TW_MPI)
  find_program(MPI_CXX_COMPILER mpicxx.${TW_MPI} REQUIRED)
  find_program(MPIEXEC_EXECUTABLE mpiexec.${TW_MPI} REQUIRED)
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  list(APPEND TW_MISSING "MPI (Debian: libopenmpi-dev openmpi-bin, or mpich libmpich-dev)")
  return()
endif()

include(TwDescribeMpi)
tw_describe_mpi(TW_MPI_NAME TW_MPI_VERSION)
message(STATUS "MPI: ${TW_MPI_NAME} ${TW_MPI_VERSION}")
if(TW_MPI_NAME STREQUAL "openmpi")
  set(TW_MPI_LAUNCHER_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                                  OMPI_MCA_hwloc_base_binding_policy=none)
  set(TW_MPI_TEST_ENVIRONMENT OMPI_MCA_mpi_yield_when_idle=1)
  set(TW_MPI_SAYS_KILLED "rank 1 .* exited on signal 9")
else()  # MPICH or one of its kin, whose launcher is Hydra as well
  set(TW_MPI_LAUNCHER_ENVIRONMENT "")
  set(TW_MPI_TEST_ENVIRONMENT MPIR_CVAR_POLLS_BEFORE_YIELD=1)
  set(TW_MPI_SAYS_KILLED "EXIT CODE: 9|KILLED BY SIGNAL: 9")
endif()
set(TW_MPI_ENVIRONMENT ${TW_MPI_LAUNCHER_ENVIRONMENT} ${TW_MPI_TEST_ENVIRONMENT})

# Variables that are set already win.
set(script "#!/bin/sh\n# What starts ranks: ${MPIEXEC_EXECUTABLE}, with what it must be told. Written by cmake/TwMpi.cmake.\n")
foreach(setting IN LISTS TW_MPI_LAUNCHER_ENVIRONMENT)
  string(REGEX REPLACE "^([^=]*)=(.*)" "export \\1=\"\${\\1:-\\2}\"\n" line "${setting}")
  string(APPEND script "${line}")
endforeach()
string(APPEND script "exec \"${MPIEXEC_EXECUTABLE}\" \"$@\"\n")
set(TW_MPI_LAUNCHER "${PROJECT_BINARY_DIR}/mpirun")
file(CONFIGURE OUTPUT "${TW_MPI_LAUNCHER}" CONTENT "${script}" @ONLY)
file(CHMOD "${TW_MPI_LAUNCHER}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
