// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::pipeline {

/// Which activations a stage keeps between the forward and the backward pass of a micro-batch. With k micro-batches in flight, and `saved` the bytes
/// that autograd keeps:
///
/// | | keeps | computes again | memory |
/// |---|---|---|---|
/// | none | what autograd keeps | nothing | (k - 1) * saved(stage) + peak(stage) |
/// | selective | inputs of its segments | each segment, right before its backward pass | (k - 1) * kept(stage) + max over segments of (kept + peak) |
/// | full | its input | its forward pass, right before its backward pass | k * input(stage) + peak(stage) |
///
/// If the backward pass directly follows the forward pass, the last segment (for full: everything) is not recomputed.
/// kept(segment): bytes of the inputs of the segment and of earlier ones, which the backward pass frees later. kept(stage): those of all segments.
/// peak: maximum bytes during a backward pass: saved tensors, cotangents, scratch, and gradients before accumulation.
/// Recomputation uses the values that buffers had in the forward pass. It is an error if a recomputed forward pass changes a parameter.
/// Ref: Chen et al. 2016, arXiv 1604.06174.
enum class Recompute { none, selective, full };

}  // namespace tw::pipeline
