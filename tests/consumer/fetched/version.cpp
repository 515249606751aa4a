// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <tw/base.hpp>

static_assert(TW_VERSION >= 100);

int main() { std::cout << tw::build_info().version << " compiled for " << tw::build_info().mpi << " and " << tw::build_info().libtorch << '\n'; }
