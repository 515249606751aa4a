// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include <tw/base/config.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tw::fuzz::try_reading(data, size, [](const auto& path) {
    auto config = tw::Config::from_file(path);
    double lr = 0;
    std::string name;
    config.bind("optimizer.lr", lr);
    config.bind("name", name);
    std::vector<double> sizes;
    std::vector<std::string> names;
    config.bind("sizes", sizes);
    config.bind("names", names);
    (void)config.toml();
    config.finish();
  });
}
