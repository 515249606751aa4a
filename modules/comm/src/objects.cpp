// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/objects.hpp>

#include <numeric>
#include <span>
#include <tw/mpi/collectives.hpp>

namespace tw {

std::vector<std::string> allgather_strings(const Communicator& comm, const std::string& mine) {
  const int size = static_cast<int>(mine.size());
  std::vector<int> sizes(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));

  std::string all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), '\0');
  mpi::allgather(comm, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), sizes);

  std::vector<std::string> strings;
  size_t begin = 0;
  for (const int length : sizes) {
    strings.push_back(all.substr(begin, static_cast<size_t>(length)));
    begin += static_cast<size_t>(length);
  }
  return strings;
}

}  // namespace tw
