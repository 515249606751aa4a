// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ostream>
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Writes the `text` of every rank to `out` of rank 0, in rank order, each line after its time and rank. Collective. @param text any number of
/// lines.
void print_ordered(const Communicator& comm, const std::string& text, std::ostream& out);
/// The same to standard output.
void print_ordered(const Communicator& comm, const std::string& text);

}  // namespace tw
