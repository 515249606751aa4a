// SPDX-License-Identifier: Apache-2.0
// `torchweave selftest` in this process: what it prints and records, and that each part can fail. On 4 ranks there is a simulated accelerator, so
// that every part runs.
#include "mpi_test.hpp"

#include <ATen/DeviceAccelerator.h>

#include <accelerator.hpp>
#include <filesystem>
#include <iostream>
#include <launcher_match.hpp>
#include <nlohmann/json.hpp>
#include <run_command.hpp>
#include <selftest/machine.hpp>
#include <selftest/part.hpp>
#include <sstream>
#include <tw/base/file.hpp>

namespace selftest_test {

namespace fs = std::filesystem;
using namespace tw::tool::selftest;
using tw::testing::world;

struct Report {
  int exit_code = 0;
  std::string printed;    // on rank 0
  nlohmann::json record;  // on rank 0
};

/// An empty folder. Collective.
fs::path fresh_folder() {
  fs::path folder = fs::path(std::getenv("TEST_TMPDIR")) / "selftest";
  if (world().rank() == 0) {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  world().barrier();
  return folder;
}

Report run_selftest(std::vector<std::string> arguments = {}) {
  if (world().size() == 4) tw::testing::accelerator::install();
  const fs::path folder = fresh_folder();
  const std::string json = folder / "record.json";
  std::vector<const char*> argv{"torchweave", "selftest", "--json", json.c_str()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream printed;
  std::streambuf* before = std::cout.rdbuf(printed.rdbuf());
  tw::tool::Session session;  // joins MPI, which this program has started
  const tw::tool::End end = tw::tool::run_command(static_cast<int>(argv.size()), argv.data(), session);
  std::cout.rdbuf(before);
  EXPECT_EQ(end.message, "");
  if (world().rank() != 0) return {end.exit_code, printed.str(), {}};
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "a working folder is left";
  return {end.exit_code, printed.str(), nlohmann::json::parse(tw::read_file(json))};
}

/// What the outcome of a part must be here.
std::string outcome_of(const Part& part) {
  const bool can_run = world().size() >= part.least_ranks && (part.name != "devices" || at::accelerator::deviceCount() > 0);
  return can_run ? "passed" : "skipped";
}

TEST(Selftest, PassesAndRecordsWhatItRanOn) {
  const Report all = run_selftest();
  EXPECT_EQ(all.exit_code, 0);
  if (world().rank() != 0) {
    EXPECT_EQ(all.printed, "");
    return;
  }
  EXPECT_EQ(all.record["format"], "torchweave selftest");
  EXPECT_EQ(all.record["version"], 1);
  EXPECT_EQ(all.record["finished"], true);
  EXPECT_EQ(all.record["passed"], true);
  EXPECT_FALSE(all.record.contains("planted_faults"));
  EXPECT_EQ(all.record["ranks"], world().size());
  for (const char* key : {"date", "torchweave", "libtorch", "compiler"}) EXPECT_NE(all.record[key].get<std::string>(), "") << key;
  EXPECT_NE(all.record["mpi"]["name"].get<std::string>(), "");
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(all.record["mpi"]["version"].get<std::string>().at(0)))) << all.record["mpi"];
  int nodes = 0;
  for (const nlohmann::json& machine : all.record["machines"]) {
    nodes += machine["nodes"].get<int>();
    EXPECT_GE(machine["cores"], 1);
    EXPECT_GT(machine["memory_bytes"], 1 << 20);
    EXPECT_NE(machine["processor"].get<std::string>(), "");
    EXPECT_TRUE(machine["networks"].is_array());
  }
  EXPECT_EQ(all.record["nodes"], nodes);
  ASSERT_EQ(all.record["parts"].size(), parts().size());
  for (size_t i = 0; i < parts().size(); ++i) {
    const nlohmann::json& part = all.record["parts"][i];
    EXPECT_EQ(part["name"], parts()[i].name);
    EXPECT_EQ(part["outcome"], outcome_of(parts()[i])) << part;
    EXPECT_EQ(part["why"].get<std::string>().empty(), part["outcome"] == "passed") << part;
    EXPECT_GE(part["seconds"], 0);
    EXPECT_NE(all.printed.find('\n' + std::string(parts()[i].name) + ' '), std::string::npos) << all.printed;
  }
  EXPECT_EQ(all.printed.find("skipped    0.00 s  needs 2 ranks") != std::string::npos, world().size() == 1) << all.printed;
  EXPECT_NE(all.printed.find(", 0 failed, "), std::string::npos) << all.printed;
}

/// @param why what each part must give as its reason
void expect_all_red(const std::string& option, const std::string& why) {
  const Report all = run_selftest({option, "all"});
  EXPECT_EQ(all.exit_code, 1);
  if (world().rank() != 0) return;
  EXPECT_EQ(all.record["passed"], false);
  EXPECT_EQ(all.record["planted_faults"], true);
  for (const nlohmann::json& part : all.record["parts"]) {
    EXPECT_EQ(part["outcome"], "failed") << part;
    EXPECT_NE(part["why"].get<std::string>().find(why), std::string::npos) << part;
  }
  EXPECT_NE(all.printed.find("\n0 passed, " + std::to_string(parts().size()) + " failed, 0 skipped on 4 ranks"), std::string::npos) << all.printed;
}

TW_TEST_ON(Selftest, IsRedInEachPartThatComputesWithWrongValues, {.least = 4}) { expect_all_red("--break", "rank "); }

// The other ranks wait for the one that throws, and are released. The next part runs.
TW_TEST_ON(Selftest, IsRedInEachPartThatThrowsOnOneRank, {.least = 4}) { expect_all_red("--throw", "rank 3: this failure is planted"); }

TW_TEST_ON(Selftest, IsRedInTheBrokenPartAlone, {.most = 1}) {
  const Report broken = run_selftest({"--break", "search", "--throw", "checkpoint"});
  EXPECT_EQ(broken.exit_code, 1);
  for (const nlohmann::json& part : broken.record["parts"]) {
    const bool is_red = part["name"] == "search" || part["name"] == "checkpoint";
    EXPECT_EQ(part["outcome"] == "failed", is_red) << part;
  }
}

TEST(Selftest, ReadsTheNameOfAnMpi) {
  const auto expect = [](const char* text, const char* name, const char* version) {
    EXPECT_EQ(mpi_name_in(text).name, name) << text;
    EXPECT_EQ(mpi_name_in(text).version, version) << text;
  };
  expect("Open MPI v4.1.4", "Open MPI", "4.1.4");
  expect("MPICH Version:\t4.0.2", "MPICH", "4.0.2");
  expect("MVAPICH2 Version      :\t2.3.7", "MVAPICH2", "2.3.7");
  expect("Intel(R) MPI Library 2021.5 for Linux* OS", "Intel(R) MPI Library", "2021.5");
  expect("an MPI", "an MPI", "");
  expect("", "", "");
}

TEST(Selftest, ReadsTheProcessor) {
  EXPECT_EQ(processor_in("processor\t: 0\nmodel name\t: AMD EPYC 9654\nmodel name\t: another\n"), "AMD EPYC 9654");
  EXPECT_EQ(processor_in("CPU implementer\t: 0x41\n"), "");
}

TEST(Selftest, ReadsTheNetworksThatAreUp) {
  const fs::path sys = fresh_folder() / ("sys." + std::to_string(world().rank()));
  const auto write = [&](const std::string& path, const std::string& content) {
    fs::create_directories((sys / path).parent_path());
    tw::replace_file(sys / path, content);
  };
  const auto add_port = [&](const std::string& number, const std::string& state) {
    const std::string port = "class/infiniband/mlx5_0/ports/" + number;
    write(port + "/state", state);
    write(port + "/link_layer", "InfiniBand\n");
    write(port + "/rate", "100 Gb/sec (4X EDR)\n");
  };
  const auto add_interface = [&](const std::string& name, bool is_physical, const std::string& state, const std::string& speed) {
    write("class/net/" + name + "/operstate", state + '\n');
    write("class/net/" + name + "/speed", speed + '\n');
    if (is_physical) write("class/net/" + name + "/device/vendor", "0x1");
  };
  EXPECT_EQ(networks_in(sys), std::vector<std::string>());
  add_port("1", "4: ACTIVE\n");
  add_port("2", "1: DOWN\n");
  add_interface("eth0", true, "up", "25000");
  add_interface("eth1", true, "down", "1000");
  add_interface("eth2", true, "up", "-1");
  add_interface("veth0", false, "up", "10000");
  EXPECT_EQ(networks_in(sys), (std::vector<std::string>{"mlx5_0 InfiniBand 100 Gb/sec (4X EDR)", "Ethernet 25 Gb/s"}));
  world().barrier();  // the folder is the next test's, too
}

}  // namespace selftest_test
