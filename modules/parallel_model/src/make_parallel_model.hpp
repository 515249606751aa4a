// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/parallel_model/parallel_model.hpp>

#include "calls.hpp"
#include "program.hpp"

namespace tw {

/// Collective over the mesh. @param of the user's mesh, on which split layers communicate. @param calls over the same mesh, with the model's own
/// communicators
ParallelModel make_parallel_model(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program, const ParallelOptions& options);

}  // namespace tw
