// SPDX-License-Identifier: Apache-2.0
#include "print_settings.hpp"

#include <iomanip>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/config.hpp>

namespace tw::tool {

void print_settings(const Config& config) {
  for (const Config::Entry& entry : config.entries()) {
    std::cout << "  " << std::left << std::setw(52) << concat(entry.key, " = ", entry.value) << ' ' << entry.origin << '\n';
  }
  std::cout << std::endl;
}

}  // namespace tw::tool
