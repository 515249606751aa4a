// SPDX-License-Identifier: Apache-2.0
// Binding near a device, on a machine described to hwloc by a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tw/mpi/locality.hpp>
#include <vector>

#include "cores.hpp"

namespace locality_test {

std::string sets(const char* cpus, const char* nodes) {
  return std::string(R"( cpuset=")") + cpus + R"(" complete_cpuset=")" + cpus + R"(" nodeset=")" + nodes + R"(" complete_nodeset=")" + nodes + '"';
}

// A package with its own memory, cores `first` to `last`, and a GPU at `bus`.
std::string package(int number, int first, int last, const char* cpus, const char* nodes, const std::string& bus) {
  const std::string place = std::to_string(number);
  std::string text = R"(<object type="Package" os_index=")" + place + '"' + sets(cpus, nodes) + R"( gp_index="1)" + place + R"(">)";
  text += R"(<object type="NUMANode" os_index=")" + place + '"' + sets(cpus, nodes) + R"( gp_index="2)" + place + R"(" local_memory="1048576"/>)";
  for (int core = first; core <= last; ++core) {
    const std::string mask = "0x" + std::to_string(1 << core);  // up to 8: one hexadecimal digit
    text += R"(<object type="PU" os_index=")" + std::to_string(core) + '"' + sets(mask.c_str(), nodes) + R"( gp_index="3)" + std::to_string(core) +
            R"("/>)";
  }
  text += R"(<object type="Bridge" gp_index="4)" + place + R"(" bridge_type="0-1" depth="0" bridge_pci=")" + bus.substr(0, 4) + ":[" +
          bus.substr(5, 2) + "-" + bus.substr(5, 2) + R"(]"><object type="PCIDev" gp_index="5)" + place + R"(" pci_busid=")" + bus +
          R"(" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="0"/></object></object>)";
  return text;
}

/// hwloc's view of a machine of two NUMA nodes: core 0 next to the GPU at 0000:01:00.0, cores 1 to 3 next to the one at 0000:81:00.0.
class Locality : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_)
        << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"  // lines, for hwloc without libxml
        << R"(<topology version="2.0">)" << R"(<object type="Machine" os_index="0")" << sets("0xf", "0x3") << R"( gp_index="1">)"
        << package(0, 0, 0, "0x1", "0x1", "0000:01:00.0") << package(1, 1, 3, "0xe", "0x2", "0000:81:00.0") << "</object></topology>";
    setenv("HWLOC_XMLFILE", file_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HWLOC_XMLFILE");
    std::filesystem::remove(file_);
  }

  const std::filesystem::path file_ = std::filesystem::temp_directory_path() / ("tw_machine_" + std::to_string(getpid()) + ".xml");
};

std::vector<int> numbers(const cpu_set_t& set) {
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) all.push_back(core);
  }
  return all;
}

std::vector<int> cores_of_thread() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return numbers(set);
}

TEST_F(Locality, CoresNearADeviceAreThoseOfItsNode) {
  EXPECT_EQ(numbers(tw::mpi::cores_near("0000:01:00.0").value()), (std::vector{0}));
  EXPECT_EQ(numbers(tw::mpi::cores_near("0000:81:00.0").value()), (std::vector{1, 2, 3}));
  EXPECT_FALSE(tw::mpi::cores_near("0000:02:00.0"));
  EXPECT_FALSE(tw::mpi::cores_near(""));
}

TEST(LowestThreads, AreThoseOfTheCores) {
  setenv("HWLOC_SYNTHETIC", "core:2 pu:3", 1);
  EXPECT_EQ(tw::mpi::find_lowest_threads(), (std::vector{0, 0, 0, 3, 3, 3}));
  unsetenv("HWLOC_SYNTHETIC");
  EXPECT_LE(static_cast<size_t>(tw::cores_here()), cores_of_thread().size());
}

TEST_F(Locality, AThreadStaysOnThoseItMayUse) {
  std::vector<int> usable = cores_of_thread();
  if (usable.size() < 2 || usable[0] != 0 || usable[1] != 1) GTEST_SKIP() << "cores 0 and 1 are not both to be had";
  std::thread([&] {  // in a thread, whose affinity is separate
    EXPECT_TRUE(tw::stay_near("0000:02:00.0"));
    EXPECT_EQ(cores_of_thread(), usable);
    EXPECT_TRUE(tw::stay_near("0000:81:00.0"));
    const std::vector<int> near = cores_of_thread();
    EXPECT_EQ(near.front(), 1);
    EXPECT_LE(near.back(), 3);
    std::thread([&] { EXPECT_EQ(cores_of_thread(), near) << "of a thread made afterwards"; }).join();
    EXPECT_FALSE(tw::stay_near("0000:01:00.0"));
    EXPECT_EQ(cores_of_thread(), near);
  })
      .join();
}

}  // namespace locality_test
