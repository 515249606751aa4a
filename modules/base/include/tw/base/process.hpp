// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// This process's rank in the world, or -1 before an `Environment` exists. Used only to label messages.
int process_rank() noexcept;

/// Called once by `Environment`.
void set_process_rank(int rank) noexcept;

/// "rank 3", or "this process" before the rank is known.
std::string process_label();

/// `message` without the process_label() at its beginning, if it has one. For messages that several ranks report.
std::string without_process_label(const std::string& message);

/// The name of this process's host.
std::string host_name();

/// Process id and host name, such as "1234_node7". For names of temporary files in folders that several hosts may share. Differs between running
/// processes, unless containers have the same host name but process ids of their own.
std::string process_identity();

}  // namespace tw
