# Target `docs`: the reference, from the public headers and the pages under docs/.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(TW_DOCS_OUTPUT "${PROJECT_SOURCE_DIR}/build/docs")
  file(GLOB roots LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/modules/*/include")
  list(JOIN roots " " TW_DOCS_INCLUDE_ROOTS)
  configure_file(docs/Doxyfile.in "${PROJECT_BINARY_DIR}/Doxyfile" @ONLY)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E make_directory "${TW_DOCS_OUTPUT}" COMMAND Doxygen::doxygen "${PROJECT_BINARY_DIR}/Doxyfile"
                    COMMAND ${CMAKE_COMMAND} -E echo "docs: build/docs/html/index.html" VERBATIM)
endif()
