// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>
#include <tw/report/svg.hpp>

#include "memory_svg.hpp"

namespace memory_svg_test {

constexpr int64_t mib = int64_t{1} << 20;

tw::train::StepMemory step() {
  return {.rank = 3,
          .step = 6,
          .moments = {{0, "forward", {{4 * mib, 2 * mib, 8 * mib, 0, 0}}},
                      {0.010, "backward", {{4 * mib, 2 * mib, 8 * mib, 0, 6 * mib}}},
                      {0.030, "update", {{4 * mib, 2 * mib, 8 * mib, 0, mib}}},
                      {0.040, "update", {{4 * mib, 2 * mib, 8 * mib, 0, 0}}}}};
}

TEST(MemorySvg, NamesRankStepMostUsesAndPhases) {
  const std::string svg = tw::tool::memory_svg(step());
  for (const char* words : {">memory of rank 3 in step 7: at most 20.0 MiB<", ">parameters 4.0<", ">gradients 2.0<", ">optimizer 8.0<",
                            ">buffers 0.0<", ">activations 6.0<", ">forward<", ">backward<", ">update<", ">5<", ">20<", ">40<"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
}

// The upper edges of what lies on top, at the most and later, over the whole height of the plot.
TEST(MemorySvg, StacksUsesInProportion) {
  const std::string svg = tw::tool::memory_svg(step());
  const std::regex area("<polygon fill=\"([^\"]+)\" points=\"([^\"]+)\"><title>(\\w+)</title>");
  std::map<std::string, std::vector<tw::report::Point>> points;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), area); it != std::sregex_iterator(); ++it) {
    std::istringstream places((*it)[2]);
    for (std::string place; places >> place;) points[(*it)[3]].push_back({std::stod(place), std::stod(place.substr(place.find(',') + 1))});
  }
  ASSERT_EQ(points.size(), 5U);
  const double ground = points["parameters"].back().y;
  const double height = ground - points["activations"][2].y;  // from the second moment on
  EXPECT_NEAR((ground - points["parameters"][0].y) / height, 4.0 / 20, 0.01);
  EXPECT_NEAR((ground - points["optimizer"][0].y) / height, 14.0 / 20, 0.01);
  EXPECT_NEAR((ground - points["activations"][4].y) / height, 15.0 / 20, 0.01);
  const double width = points["parameters"][6].x - points["parameters"][0].x;
  EXPECT_NEAR((points["activations"][2].x - points["activations"][0].x) / width, 0.25, 0.01);
}

}  // namespace memory_svg_test
