// SPDX-License-Identifier: Apache-2.0
// Values that are not tensors, of any type that bytes.hpp can write: numbers, texts, lists and records.
#pragma once
#include <string>
#include <tw/base/bytes.hpp>
#include <tw/comm/objects.hpp>
#include <vector>

namespace tw {

/// As allgather_strings(), gather_strings(), scatter_strings() and broadcast_string().
template <class T>
std::vector<T> allgather_objects(const Communicator& comm, const T& mine) {
  std::vector<T> all;
  for (const std::string& each : allgather_strings(comm, packed(mine))) all.push_back(unpacked<T>(each));
  return all;
}
template <class T>
std::vector<T> gather_objects(const Communicator& comm, const T& mine, Rank root) {
  std::vector<T> all;
  for (const std::string& each : gather_strings(comm, packed(mine), root)) all.push_back(unpacked<T>(each));
  return all;
}
template <class T>
T scatter_objects(const Communicator& comm, const std::vector<T>& objects, Rank root) {
  std::vector<std::string> texts;
  if (comm.rank() == root) {
    for (const T& each : objects) texts.push_back(packed(each));
  }
  return unpacked<T>(scatter_strings(comm, texts, root));
}
template <class T>
T broadcast_object(const Communicator& comm, const T& object, Rank root) {
  return unpacked<T>(broadcast_string(comm, comm.rank() == root ? packed(object) : std::string(), root));
}

}  // namespace tw
