# Looks for LibTorch, as the build does, in FOLDER or where scripts/setup.sh puts it.
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/TwFindTorch.cmake")
if(NOT FOLDER)
  set(FOLDER "${CMAKE_CURRENT_LIST_DIR}/../../build/deps/torch")
endif()
tw_find_torch("${FOLDER}")
