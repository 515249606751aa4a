# Looks for LibTorch, as the build does.
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/TwFindTorch.cmake")
tw_find_torch("${CMAKE_CURRENT_LIST_DIR}/../../build/deps/torch")
