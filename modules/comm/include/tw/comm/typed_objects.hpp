// SPDX-License-Identifier: Apache-2.0
// Collectives on values of any type `T` that <tw/base/bytes.hpp> can write: numbers, strings, lists, records. `T` must be the same on all ranks.
#pragma once
#include <string>
#include <tw/base/bytes.hpp>
#include <tw/comm/objects.hpp>
#include <vector>

namespace tw {

/// Returns the `mine` of every rank, in rank order, on every rank. Collective.
template <class T>
std::vector<T> allgather_objects(const Communicator& comm, const T& mine) {
  std::vector<T> all;
  for (const std::string& each : allgather_strings(comm, packed(mine))) all.push_back(unpacked<T>(each));
  return all;
}
/// Returns the `mine` of every rank on `root`, and an empty list elsewhere. Collective. @throws ContractError unless `root` is a rank of `comm`
template <class T>
std::vector<T> gather_objects(const Communicator& comm, const T& mine, Rank root) {
  std::vector<T> all;
  for (const std::string& each : gather_strings(comm, packed(mine), root)) all.push_back(unpacked<T>(each));
  return all;
}
/// Sends objects[r] of `root` to rank r, and returns this rank's object. Collective. @param objects one for each rank; used on the root only
/// @throws ContractError on every rank unless `root` is a rank of `comm` and passes one object for each rank
template <class T>
T scatter_objects(const Communicator& comm, const std::vector<T>& objects, Rank root) {
  std::vector<std::string> strings;
  if (comm.rank() == root) {
    for (const T& each : objects) strings.push_back(packed(each));
  }
  return unpacked<T>(scatter_strings(comm, strings, root));
}
/// Returns the `object` of `root` on every rank. Collective. @param object used on the root only
/// @throws ContractError unless `root` is a rank of `comm`
template <class T>
T broadcast_object(const Communicator& comm, const T& object, Rank root) {
  return unpacked<T>(broadcast_string(comm, comm.rank() == root ? packed(object) : std::string(), root));
}

}  // namespace tw
