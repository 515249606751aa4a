// SPDX-License-Identifier: Apache-2.0
#include "written_output.hpp"

#include <iostream>
#include <tw/base/error.hpp>

namespace tw::tool {

void expect_output_written() {
  std::cout.flush();
  if (!std::cout) throw Error("standard output cannot be written completely");
}

}  // namespace tw::tool
