//! The kernel's interfaces, and the only unsafe code of the project.
