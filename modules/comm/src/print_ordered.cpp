// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/print_ordered.hpp>

#include <chrono>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/comm/objects.hpp>

namespace tw {
namespace {

// Of this rank's clock, when it called: "12:34:56.789".
std::string time_of_day() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  TextWriter out;
  out << std::put_time(&local, "%H:%M:%S.") << std::setw(3) << std::setfill('0') << milliseconds;
  return out.str();
}

}  // namespace

void print_ordered(const Communicator& comm, const std::string& text, std::ostream& out) {
  const std::string prefix = concat(time_of_day(), " rank ", comm.rank(), ": ");
  std::string mine;
  TextReader lines(text);
  for (std::string line; std::getline(lines, line);) mine += prefix + line + '\n';
  for (const std::string& theirs : gather_strings(comm, mine, Rank(0))) out << theirs;
  out.flush();
}

void print_ordered(const Communicator& comm, const std::string& text) { print_ordered(comm, text, std::cout); }

}  // namespace tw
