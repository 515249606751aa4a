# Tests lie in modules/<m>/tests beside what they test, and are named in the CMakeLists.txt there.
#   tw_test(name [LIBRARIES ...])                             a pure test: one process, no MPI, no LibTorch header
#   tw_torch_test(name [LIBRARIES ...])                       one process, with LibTorch
#   tw_mpi_test(name RANKS 1 2 3 [TIMEOUT s] [LIBRARIES ...]) one test per number of ranks, with LibTorch
find_package(GTest REQUIRED)
add_custom_target(pure_tests)  # all that tw_test() registers

file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tmp")
set(TW_MPI_ENVIRONMENT OMP_NUM_THREADS=1 "TEST_TMPDIR=${PROJECT_BINARY_DIR}/tmp" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
    UBSAN_OPTIONS=print_stacktrace=1)
# LibTorch is not instrumented, so its containers do not tell ASan where they end. Leaks are looked for without MPI only: Open MPI leaves memory behind
# in plug-ins that are unloaded when LSan looks, so that no suppression can name them.
list(APPEND TW_MPI_ENVIRONMENT "ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0")
set(TW_TEST_ENVIRONMENT ${TW_MPI_ENVIRONMENT})
list(TRANSFORM TW_TEST_ENVIRONMENT REPLACE "detect_leaks=0" "detect_leaks=1")

# Sanitizers make programs several times as slow.
if(TW_SANITIZE)
  set(TW_PATIENCE 5)
else()
  set(TW_PATIENCE 1)
endif()

function(tw_executable_test name)
  add_executable(${name} "${CMAKE_CURRENT_SOURCE_DIR}/${name}.cpp")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
  target_link_libraries(${name} PRIVATE ${ARGN})
  tw_compile_options(${name})
  set_property(GLOBAL APPEND PROPERTY TW_REGISTERED_TESTS "${CMAKE_CURRENT_SOURCE_DIR}/${name}.cpp")
endfunction()

function(tw_test name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  tw_executable_test(${name} ${arg_LIBRARIES} GTest::gtest_main)
  add_dependencies(pure_tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  math(EXPR timeout "60 * ${TW_PATIENCE}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS pure ENVIRONMENT "${TW_TEST_ENVIRONMENT}")
endfunction()

function(tw_torch_test name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  tw_executable_test(${name} ${arg_LIBRARIES} GTest::gtest_main)
  tw_torch_pch(${name})
  add_test(NAME ${name} COMMAND ${name})
  math(EXPR timeout "120 * ${TW_PATIENCE}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS torch ENVIRONMENT "${TW_TEST_ENVIRONMENT}")
endfunction()

# tw_add_mpi_run(test ranks timeout regex command...): registers a run under the MPI launcher that must succeed and print `regex`.
function(tw_add_mpi_run test ranks timeout regex)
  math(EXPR timeout "${timeout} * ${TW_PATIENCE}")
  add_test(NAME ${test} COMMAND "${PROJECT_SOURCE_DIR}/tests/expect_output.sh" "${regex}" ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ARGN})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout} LABELS mpi PROCESSORS 2 ENVIRONMENT "${TW_MPI_ENVIRONMENT}")
endfunction()

# tw_mpi_test_with(name label ranks timeout arguments...): the program of tw_mpi_test(name) once more, with arguments.
function(tw_mpi_test_with name label ranks timeout)
  tw_add_mpi_run(${name}.${label}.${ranks} ${ranks} ${timeout} "       OK \\]" $<TARGET_FILE:${name}> ${ARGN})
endfunction()

function(tw_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "RANKS;LIBRARIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  tw_executable_test(${name} ${arg_LIBRARIES} tw_test_main)
  tw_torch_pch(${name})
  foreach(ranks IN LISTS arg_RANKS)
    tw_add_mpi_run(${name}.${ranks} ${ranks} ${arg_TIMEOUT} "       OK \\]" $<TARGET_FILE:${name}>)
  endforeach()
endfunction()
