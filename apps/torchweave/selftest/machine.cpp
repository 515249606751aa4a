// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/text_stream.hpp>

namespace tw::tool::selftest {
namespace {

namespace fs = std::filesystem;

/// The first line of a file; empty if it cannot be read, as some files of /sys.
std::string first_line(const fs::path& path) {
  try {
    const std::string content = read_file(path);
    return content.substr(0, content.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

/// Sorted, so that equal machines have equal records.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

/// The value of a line such as `NAME="value"`.
std::string value_in(const std::string& text, const std::string& name) {
  TextReader lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + '=')) continue;
    line.erase(0, name.size() + 1);
    std::erase(line, '"');
    return line;
  }
  return "";
}

std::string distribution() {
  try {
    return value_in(read_file("/etc/os-release"), "PRETTY_NAME");
  } catch (const Error&) {
    return "";
  }
}

std::string own_cpuinfo() {
  try {
    return read_file("/proc/cpuinfo");
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string processor_in(const std::string& cpuinfo) {
  TextReader lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

std::vector<std::string> networks_in(const fs::path& sys) {
  std::vector<std::string> found;
  for (const fs::path& device : entries_of(sys / "class/infiniband")) {
    for (const fs::path& port : entries_of(device / "ports")) {
      if (first_line(port / "state").find("ACTIVE") == std::string::npos) continue;
      found.push_back(device.filename().string() + ' ' + first_line(port / "link_layer") + ' ' + first_line(port / "rate"));
    }
  }
  for (const fs::path& interface : entries_of(sys / "class/net")) {
    if (!fs::exists(interface / "device") || first_line(interface / "operstate") != "up") continue;  // virtual ones have no device
    TextReader speed(first_line(interface / "speed"));
    double megabits = 0;
    if (speed >> megabits && megabits > 0) found.push_back("Ethernet " + brief_text(megabits / 1000) + " Gb/s");
  }
  return found;
}

MpiName mpi_name_in(const std::string& library_version) {
  const auto begins_version = [&](size_t i) {
    if (std::isdigit(static_cast<unsigned char>(library_version[i])) == 0 || i == 0) return false;
    const char before = library_version[i - 1];
    return before == 'v' || before == ' ' || before == '\t';
  };
  size_t begin = 0;
  while (begin < library_version.size() && !begins_version(begin)) ++begin;
  std::string name = library_version.substr(0, begin);
  const auto strip = [&] { name.erase(name.find_last_not_of(" \t:v") + 1); };
  strip();
  if (name.ends_with("Version")) name.erase(name.size() - 7);
  strip();
  const std::string rest = library_version.substr(begin);
  return {name, rest.substr(0, rest.find_first_of(" \t,\n"))};
}

nlohmann::ordered_json this_machine() {
  utsname system{};
  ::uname(&system);
  const std::string processor = processor_in(own_cpuinfo());
  return {{"processor", processor.empty() ? system.machine : processor},
          {"architecture", system.machine},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)},
          {"system", std::string(system.sysname) + ' ' + system.release},
          {"distribution", distribution()},
          {"networks", networks_in("/sys")}};
}

}  // namespace tw::tool::selftest
