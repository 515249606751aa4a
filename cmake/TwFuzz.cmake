# Fuzzing of the parsers with libFuzzer (the preset `fuzz`, `make fuzz`).
option(TW_FUZZ "Build the fuzz targets (needs clang, and TW_SANITIZE with fuzzer-no-link)" OFF)

# tw_fuzz_target(name libraries...): NAME.cpp beside the CMakeLists.txt, and examples of what it reads in seeds/NAME.
function(tw_fuzz_target name)
  add_executable(fuzz_${name} ${name}.cpp)
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  tw_compile_options(fuzz_${name})
  add_dependencies(fuzz_targets fuzz_${name})
endfunction()
