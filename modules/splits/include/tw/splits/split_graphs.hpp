// SPDX-License-Identifier: Apache-2.0
// Divides a captured module over ranks that compute it together: by dimensions inside its operators, without a table of rules for operators.
//
// Each operator is run on random numbers, whole and by parts, forward and backward (see operator_splits.hpp). From what the experiments show, a split
// is chosen for each operator, so that the whole step is fastest or parameters need least memory (see SplitOptions). Where two operators need
// different parts of a value, ranks communicate: by the operators of tensor_parallel. Where nothing can be divided, ranks compute the same.
// Ref: EasyDist (metashard) discovers splits by experiment for Python; Xu et al. 2021 (GSPMD, arXiv 2105.04663) has the placements; Zheng et al. 2022
// (Alpa, arXiv 2201.12023) the choice by cost.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <tw/graph/capture_modes.hpp>
#include <tw/splits/split_options.hpp>
#include <vector>

namespace tw::splits {

struct SplitGraphs {
  /// Computed by all ranks together; the same graphs on all of them. Each rank binds its slices of the parameters, and passes the whole batch. Its
  /// operators communicate through an object "ranks[P]", which has no value yet: see graph::replace_objects().
  graph::ModeGraphs graphs;
  /// Names of the parameters of which a rank holds a slice, with the dimension that is divided. Rank r of P holds elements r * n / P to
  /// (r + 1) * n / P - 1 of n; P divides n.
  std::map<std::string, int> slices = {};
  std::string explanation = {};  ///< what is divided in training, what is sent between operators, and why others are whole
};

/// The name of the object that stands for the communicator in graphs of parts.
std::string ranks_name(int ranks);

/// Divides both graphs of a module. Random numbers are drawn for whole tensors, equally on all ranks, so results are those of one process. Local:
/// let one rank call it and send the result. Runs each distinct operator on a few rows, for each combination of placements that its inputs may have,
/// by each rank's parts one after the other. Large sizes are replaced by smaller ones; splits that are chosen are tried with the operator's own
/// sizes.
/// @param bind returns a parameter or buffer by its name; they keep their values. Tensors must have memory on the CPU. @param example a batch
SplitGraphs split_graphs(const graph::ModeGraphs& whole, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const SplitOptions& options);

/// Copies of the first rows of a batch, which is repeated if it has fewer. They have its order in memory. @throws ContractError if it has no rows
std::vector<at::Tensor> first_rows(const std::vector<at::Tensor>& batch, int64_t rows);

}  // namespace tw::splits
