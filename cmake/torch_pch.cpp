// The unit that owns the shared precompiled header; see tw_torch_pch().
