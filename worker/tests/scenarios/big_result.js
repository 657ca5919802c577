return "x".repeat(2_000_000);
