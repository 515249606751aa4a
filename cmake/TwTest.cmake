# Tests lie in modules/<m>/tests beside what they test, and are named in the CMakeLists.txt there, which ends with tw_test_programs():
#   tw_test(file [LIBRARIES ...])                   a pure test: one process, no MPI, no LibTorch header
#   tw_torch_test(file [LIBRARIES ...])             one process, with LibTorch
#   tw_mpi_test(file RANKS 1 2 3 [DEVICE_RANKS 2] [LIBRARIES ...])   on each of these numbers of ranks, with LibTorch; once more with tensors on the
#                                                   simulated accelerator, and by make test-device on a GPU
#   tw_mpi_test_program(file RANKS 1 2 3 LIBRARIES tested...)    the same as a program of its own, with a main() of its own
# Those of a folder and a kind are one program, which CTest runs once a number of ranks: <m>.pure, <m>.torch, <m>.mpi.1, <m>.mpi.2, <m>.device.2, ...
# build/<preset>/tests.txt says which file is in which run, for scripts/test.sh, which picks tests by name; device_tests.txt, which programs have tests on
# devices, for scripts/device/test.sh. They are built by target device_tests.
find_package(GTest REQUIRED)
add_custom_target(pure_tests)  # all pure programs

file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tmp")
list(APPEND TW_MPI_ENVIRONMENT OMP_NUM_THREADS=1 "TEST_TMPDIR=${PROJECT_BINARY_DIR}/tmp")
# Reports of sanitizers go into files, for scripts/test.sh: a test of a job that is meant to fail would not notice them.
set(reports "log_path=${PROJECT_BINARY_DIR}/reports/")
list(APPEND TW_MPI_ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1:${reports}undefined" "TSAN_OPTIONS=${reports}thread")
# LibTorch is not instrumented, so its containers do not tell ASan where they end. Leaks are looked for without MPI only: Open MPI leaves memory after
# in plug-ins that are unloaded when LSan looks, so that no suppression can name them.
list(APPEND TW_MPI_ENVIRONMENT "ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0:${reports}address")
set(TW_TEST_ENVIRONMENT ${TW_MPI_ENVIRONMENT})
list(TRANSFORM TW_TEST_ENVIRONMENT REPLACE "detect_leaks=0" "detect_leaks=1")

# tw_test_folder(test): a folder of its own for the files of a run, since runs of one program go side by side.
function(tw_test_folder test)
  set(folder "${PROJECT_BINARY_DIR}/tmp/${test}")
  file(MAKE_DIRECTORY "${folder}")
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "TEST_TMPDIR=${folder}")  # the last one counts
endfunction()

# Sanitizers make programs several times as slow.
if(TW_SANITIZE)
  set(TW_PATIENCE 5)
else()
  set(TW_PATIENCE 1)
endif()

# tw_add_mpi_run(test ranks timeout regex command...): registers a run under the MPI launcher that must succeed and print `regex`.
function(tw_add_mpi_run test ranks timeout regex)
  math(EXPR timeout "${timeout} * ${TW_PATIENCE}")
  if(ranks EQUAL 1)
    set(cores 1)
  else()
    set(cores 2)
  endif()
  add_test(NAME ${test} COMMAND "${PROJECT_SOURCE_DIR}/tests/expect_output.sh" "${regex}" ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ARGN})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout} LABELS mpi PROCESSORS ${cores} ENVIRONMENT "${TW_MPI_ENVIRONMENT}")
  tw_test_folder(${test})
endfunction()

function(tw_collect kind file)
  cmake_parse_arguments(arg "" "" "LIBRARIES;INCLUDES" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY TW_FILES_${kind} ${file})
  set_property(DIRECTORY APPEND PROPERTY TW_LIBRARIES_${kind} ${arg_LIBRARIES})
  set_property(DIRECTORY APPEND PROPERTY TW_INCLUDES_${kind} ${arg_INCLUDES})
endfunction()

function(tw_test file)
  tw_collect(pure ${file} ${ARGN})
endfunction()

function(tw_torch_test file)
  tw_collect(torch ${file} ${ARGN})
endfunction()

function(tw_mpi_test file)
  cmake_parse_arguments(arg "" "" "RANKS;DEVICE_RANKS;LIBRARIES;INCLUDES" ${ARGN})
  tw_collect(mpi ${file} LIBRARIES ${arg_LIBRARIES} INCLUDES ${arg_INCLUDES})
  foreach(ranks IN LISTS arg_RANKS)
    set_property(DIRECTORY APPEND PROPERTY TW_FILES_mpi_ON_${ranks} ${file})
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY TW_RANKS_ON_DEVICES ${arg_DEVICE_RANKS})
  foreach(ranks IN LISTS arg_DEVICE_RANKS)
    set_property(DIRECTORY APPEND PROPERTY TW_FILES_device_ON_${ranks} ${file})
  endforeach()
endfunction()

# tw_test_program(kind result): the program of this folder's files of a kind, if there are any.
function(tw_test_program kind result)
  get_property(files DIRECTORY PROPERTY TW_FILES_${kind})
  if(NOT files)
    set(${result} "" PARENT_SCOPE)
    return()
  endif()
  set(program ${TW_TEST_FOLDER}_${kind}_tests)
  list(TRANSFORM files APPEND .cpp)
  add_executable(${program} ${files})
  get_property(libraries DIRECTORY PROPERTY TW_LIBRARIES_${kind})
  list(REMOVE_DUPLICATES libraries)
  target_link_libraries(${program} PRIVATE ${libraries})
  get_property(includes DIRECTORY PROPERTY TW_INCLUDES_${kind})
  target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support" ${includes})
  tw_compile_options(${program})
  if("${kind}" STREQUAL "pure")
    tw_little_optimised(${program})  # without LibTorch's headers that costs seconds, and saves as many tens where brute force runs
  else()
    tw_precompiled(${program} program)
  endif()
  set(${result} ${program} PARENT_SCOPE)
endfunction()

# tw_list_run(run file...): notes what is in a run, for scripts/test.sh.
function(tw_list_run run)
  foreach(file IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY TW_RUNS "${run} ${CMAKE_CURRENT_SOURCE_DIR}/${file}.cpp")
  endforeach()
endfunction()

# tw_add_local_run(kind program timeout)
function(tw_add_local_run kind program timeout)
  set(run ${TW_TEST_FOLDER}.${kind})
  target_link_libraries(${program} PRIVATE GTest::gtest_main)
  math(EXPR timeout "${timeout} * ${TW_PATIENCE}")
  add_test(NAME ${run} COMMAND ${program})
  set_tests_properties(${run} PROPERTIES TIMEOUT ${timeout} LABELS ${kind} ENVIRONMENT "${TW_TEST_ENVIRONMENT}")
  tw_test_folder(${run})
  get_property(files DIRECTORY PROPERTY TW_FILES_${kind})
  tw_list_run(${run} ${files})
endfunction()

# tw_add_mpi_runs(program): on every number of ranks that a file of this folder asks for. The program is told which file asks for which.
function(tw_add_mpi_runs program)
  target_link_libraries(${program} PRIVATE tw_test_main)
  get_property(ranks_on_devices DIRECTORY PROPERTY TW_RANKS_ON_DEVICES)
  if(ranks_on_devices)
    set_property(GLOBAL APPEND PROPERTY TW_DEVICE_TESTS ${program})
  endif()
  set(arguments_mpi "")
  set(arguments_device --device=simulated)
  foreach(where mpi device)
    set(table_${where} "")
    foreach(ranks RANGE 1 8)
      get_property(files DIRECTORY PROPERTY TW_FILES_${where}_ON_${ranks})
      if(files)
        set(run ${TW_TEST_FOLDER}.${where}.${ranks})
        tw_add_mpi_run(${run} ${ranks} 600 "       OK \\]" $<TARGET_FILE:${program}> ${arguments_${where}})
        tw_list_run(${run} ${files})
      endif()
      foreach(file IN LISTS files)
        string(APPEND table_${where} "    {\"${file}.cpp\", ${ranks}},\n")
      endforeach()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT files_on_ranks.cpp CONTENT
       "#include <mpi_test.hpp>\nconst tw::testing::FilesOnRanks& tw::testing::files_on_ranks(bool on_device) {\n  static const FilesOnRanks host{\n${table_mpi}  };\n  static const FilesOnRanks device{\n${table_device}  };\n  return on_device ? device : host;\n}\n")
  target_sources(${program} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/files_on_ranks.cpp")
endfunction()

function(tw_mpi_test_program file)
  cmake_parse_arguments(arg "" "" "RANKS;LIBRARIES" ${ARGN})
  add_executable(${file} ${file}.cpp)
  target_include_directories(${file} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
  target_link_libraries(${file} PRIVATE ${arg_LIBRARIES} GTest::gtest)
  tw_compile_options(${file})
  list(GET arg_LIBRARIES 0 tested)
  get_target_property(with_torch ${tested} TW_WITH_TORCH)
  if(with_torch)
    tw_precompiled(${file} program)
  else()
    tw_unoptimised(${file})
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    set(run ${TW_TEST_FOLDER}.${file}.${ranks})
    tw_add_mpi_run(${run} ${ranks} 120 "       OK \\]" $<TARGET_FILE:${file}>)
    tw_list_run(${run} ${file})
  endforeach()
endfunction()

# tw_mpi_run_again(label ranks file arguments...): the tests of one file once more, with arguments of the program. After tw_test_programs().
function(tw_mpi_run_again label ranks file)
  set(run ${TW_TEST_FOLDER}.mpi.${label}.${ranks})
  tw_add_mpi_run(${run} ${ranks} 120 "       OK \\]" $<TARGET_FILE:${TW_TEST_FOLDER}_mpi_tests> --file=${file} ${ARGN})
  tw_list_run(${run} ${file})
endfunction()

# tw_test_programs(): of all that this folder registered before.
function(tw_test_programs)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "^modules/|/tests$|^tests/" "" TW_TEST_FOLDER "${folder}")
  set(TW_TEST_FOLDER ${TW_TEST_FOLDER} PARENT_SCOPE)
  tw_test_program(pure program)
  if(program)
    add_dependencies(pure_tests ${program})
    tw_add_local_run(pure ${program} 120)
  endif()
  tw_test_program(torch program)
  if(program)
    tw_add_local_run(torch ${program} 240)
  endif()
  tw_test_program(mpi program)
  if(program)
    tw_add_mpi_runs(${program})
  endif()
endfunction()
