// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/splits/operator_splits.hpp>
#include <vector>

#include "operator_run.hpp"

namespace tw::splits {

/// An operator on random numbers: whole once, and by parts as often as somebody asks.
class Experiment {
 public:
  static constexpr size_t all_kinds = 5;

  /// @param most_kinds of random numbers that can show something
  Experiment(const Subject& subject, int ranks, size_t most_kinds = all_kinds);

  /// Whether the operator runs on numbers of at least two kinds, with results that can show something.
  bool is_conclusive() const noexcept { return conclusive_ > 1; }
  /// The number of sets of sizes among the arguments that can be divided, see size_variants().
  size_t variants() const noexcept { return variants_.size(); }

  /// Whether the outputs are affine in an input, as they must be if it is partial. Only the first trial counts, so they may still not be.
  bool is_affine_in(size_t input) const;
  /// The split with these placements of the inputs and these sizes divided, if ranks can compute the operator so, forward and backward.
  std::optional<OperatorSplit> attempt(const std::vector<Placement>& inputs, size_t variant) const;
  /// Whether a split that was found with other sizes holds with these. False if the operator does not run on them.
  bool confirms(const OperatorSplit& split) const;

 private:
  struct Pass {
    std::vector<at::Tensor> inputs;  // leaves of autograd's graph
    std::vector<at::Tensor> outputs;
    /// By input. @param cotangents of the outputs; undefined for those without
    std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& cotangents) const;
  };
  struct Trial {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> cotangents;  // of the outputs; undefined: without
    std::vector<at::Tensor> gradients;   // by input; undefined: without
    bool is_conclusive = false;          // or it can refute only
  };
  struct Variant {
    std::vector<SizePlace> divided_sizes;
    OperatorRun run;
  };

  Pass forward(size_t variant, const std::vector<at::Tensor>& inputs) const;
  /// A kind of random numbers. Integers and booleans among the inputs are as given, or other ones: integers shuffled, as they may be indices;
  /// flags (booleans, and integers that are 0 or 1) negated or random.
  struct Kind {
    enum class Others { as_given, opposite, drawn };
    double scale = 1;
    bool positive = false;
    bool special = false;           // an eighth is zero, and an eighth is NaN
    Others others = Others::drawn;  // opposite: flags negated
  };

  static at::Tensor numbers_like(const at::Tensor& given, const Kind& kind, at::Generator& generator);
  std::optional<Trial> trial(const Kind& kind, uint64_t seed) const;
  /// The inputs of each rank.
  std::vector<std::vector<at::Tensor>> parts(const Trial& trial, const std::vector<Placement>& placements) const;
  /// What trials have shown of a split so far.
  struct Shown {
    std::vector<Placement> outputs;                       // empty: nothing
    std::vector<std::optional<bool>> partial_cotangents;  // by input; unset: its gradients were zero
  };

  bool fits(const Trial& trial, size_t variant, const std::vector<Placement>& inputs, Shown& shown) const;
  std::optional<Placement> placement_of(size_t output, const at::Tensor& whole, const std::vector<at::Tensor>& parts) const;
  bool holds(const Placement& placement, const at::Tensor& whole, const std::vector<at::Tensor>& parts) const;
  bool fits_backward(const Trial& trial, const std::vector<std::vector<at::Tensor>>& gradients, const std::vector<Placement>& inputs,
                     Shown& shown) const;

  const Subject& subject_;
  int ranks_;
  std::vector<int> values_;        // of the inputs
  std::vector<int> outputs_;       // values of the outputs
  std::vector<Variant> variants_;  // the first one divides nothing
  std::vector<Trial> trials_;      // conclusive ones first
  size_t conclusive_ = 0;
};

}  // namespace tw::splits
