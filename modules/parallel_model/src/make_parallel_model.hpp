// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/parallel_model/parallel_model.hpp>

#include "program.hpp"

namespace tw {

/// Collective over the mesh.
ParallelModel make_parallel_model(const Mesh& mesh, std::unique_ptr<Program> program, const ParallelOptions& options);

}  // namespace tw
