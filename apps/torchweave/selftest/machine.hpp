// SPDX-License-Identifier: Apache-2.0
// Facts about a machine for the record of a self-test. They name no host, no user and no folder, so that anybody can publish them.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tw::tool::selftest {

/// The model of the processor. @param cpuinfo the content of /proc/cpuinfo @return empty if it does not name one
std::string processor_in(const std::string& cpuinfo);

/// The physical network links that are up, such as "mlx5_0 InfiniBand 100 Gb/sec (4X EDR)" and "Ethernet 10 Gb/s". Containers may hide them.
/// @param sys the folder /sys
std::vector<std::string> networks_in(const std::filesystem::path& sys);

/// Name and version in MPI's description of itself: "Open MPI" and "4.1.4" of "Open MPI v4.1.4".
struct MpiName {
  std::string name;
  std::string version;  ///< empty if unknown
};
MpiName mpi_name_in(const std::string& library_version);

/// This machine's processor, cores, memory, system and networks.
nlohmann::ordered_json this_machine();

}  // namespace tw::tool::selftest
